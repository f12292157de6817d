from __future__ import annotations

import csv
from datetime import date
from pathlib import Path

import pytest

from data_pipelines.flights_source import SkipDay, land, replay_day
from data_pipelines.job_errors import BadSpec, JobError
from data_pipelines.manifest import Manifest
from data_pipelines.raw_flights import FLIGHTS, WEATHER, delivered

DAY = date(2013, 1, 10)


def rows_of(path: Path) -> list[tuple[str, ...]]:
    with path.open(newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def all_bytes(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*.csv") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("landed")
    assert land(data_dir, [DAY, date(2013, 12, 31)]) == [DAY, date(2013, 12, 31)]
    return data_dir


def test_a_day_has_a_redelivery_and_a_late_file_when_it_lands(landed: Path) -> None:
    main, late, again = (rows_of(path) for path in delivered(landed, FLIGHTS, str(DAY)))
    assert len(main) + len(late) == 932  # of that day in the source
    assert len(late) == 19
    assert set(late).isdisjoint(main)
    assert len(again) == round(0.03 * len(main))
    assert set(again) <= set(main)
    assert {row[:3] for row in [*main, *late]} == {("2013", "1", "10")}


def test_the_bytes_are_the_same_when_a_day_lands_elsewhere_and_later(landed: Path, tmp_path: Path) -> None:
    land(tmp_path, [date(2013, 12, 31)])
    land(tmp_path, [date(2013, 12, 31), DAY])
    assert all_bytes(tmp_path) == all_bytes(landed)


def test_nothing_is_touched_when_a_day_has_landed_before(landed: Path) -> None:
    before = all_bytes(landed)
    assert land(landed, [DAY]) == []
    assert all_bytes(landed) == before


def test_a_day_without_weather_says_so_when_it_lands(landed: Path) -> None:
    assert delivered(landed, WEATHER, "2013-12-31") == []
    notes = Manifest.read(landed / WEATHER / "day=2013-12-31" / "landed.json").notes
    assert notes == ("the source has no weather for this day",)


def test_what_a_dead_landing_left_is_removed_when_the_next_one_runs(tmp_path: Path) -> None:
    leftover = tmp_path / "raw" / "flights" / ".landing-x"
    leftover.mkdir(parents=True)
    land(tmp_path, [DAY])
    assert not leftover.exists()


def test_files_of_others_are_kept_when_they_lie_in_a_days_place(tmp_path: Path) -> None:
    foreign = tmp_path / "raw" / "flights" / f"day={DAY}" / "mine.csv"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(JobError, match=r"has files, but no landed\.json"):
        land(tmp_path, [DAY])
    assert foreign.read_text() == "mine"


def test_the_days_that_exist_are_named_when_another_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"day 2014-01-01 .* holds 2013-01-01 to 2013-12-31.*--replay-year 2013"):
        land(tmp_path, [date(2014, 1, 1)])
    assert list(tmp_path.iterdir()) == []


def test_a_day_is_skipped_with_a_reason_when_the_replayed_year_has_none() -> None:
    assert replay_day(date(2027, 3, 1), 2013) == date(2013, 3, 1)
    assert replay_day(date(2027, 3, 1), None) == date(2027, 3, 1)
    skip = replay_day(date(2028, 2, 29), 2013)
    assert isinstance(skip, SkipDay)
    assert "2028-02-29 has no counterpart in 2013" in skip.reason
