from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from data_pipelines.flights_columns import COLUMNS
from data_pipelines.gate import judge
from data_pipelines.manifest import Manifest, manifest_path
from data_pipelines.partition_writer import write_partition

from .conftest import DAYS, Built, run_job

ORDINARY, STORM, NO_WEATHER = DAYS

# Great Expectations' own, and pyspark's, which it imports.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning")]


@pytest.fixture(scope="module")
def good(built: Built) -> pa.Table:
    path = manifest_path(built.data_dir, "flights", ORDINARY)
    return pq.read_table(path.parent / Manifest.read(path).files[0].path)


def a_partition(data_dir: Path, table: pa.Table, dropped: Mapping[str, int] | None = None) -> Path:
    write_partition(
        data_dir, "flights", ORDINARY, table, inputs=(), code_version="c", dropped=dropped or {}, notes=()
    )  # fmt: skip
    return manifest_path(data_dir, "flights", ORDINARY)


def set_first(column: str, *values: object) -> Callable[[pa.Table], pa.Table]:
    """Overwrite the first values of a column."""

    def change(table: pa.Table) -> pa.Table:
        old = table.schema.field(column)
        content = [*values, *table[column].to_pylist()[len(values) :]]
        return table.set_column(
            table.schema.get_field_index(column), pa.field(column, old.type), pa.array(content, old.type)
        )

    return change


def set_share(column: str, value: object, share: float) -> Callable[[pa.Table], pa.Table]:
    return lambda table: set_first(column, *[value] * int(share * table.num_rows))(table)


def judged(tmp_path: Path, table: pa.Table, dropped: Mapping[str, int] | None = None) -> dict[str, Any]:
    return judge("flights", [a_partition(tmp_path / "data", table, dropped)], tmp_path / "report")


def test_real_days_pass_with_warnings_when_they_are_odd_but_usable(built: Built, tmp_path: Path) -> None:
    manifests = [manifest_path(built.data_dir, "flights", day) for day in DAYS]
    options = [option for path in manifests for option in ("--manifest", path)]
    result_file, report_dir = tmp_path / "result.json", tmp_path / "reports" / "run"
    run = run_job(
        "gate", "--dataset", "flights", *options, "--report-dir", report_dir, "--json-result", result_file
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads(result_file.read_text())
    assert (result["passed"], result["failed"], result["problems"]) == (True, [], [])
    warned = {(warning["column"], day) for warning in result["warnings"] for day in warning["days"]}
    assert ("weather_missing_share", NO_WEATHER) in warned
    assert ("cancelled_share", STORM) in warned
    assert not {column for column, day in warned if day == ORDINARY}
    assert "warning: weather_missing_share: observed 1 of 3 days outside" in run.stdout
    assert [part["partition"] for part in result["partitions"]] == list(DAYS)
    assert Path(result["report"]) == report_dir / "index.html"
    page = (report_dir / "index.html").read_text()
    assert "weather_missing_share" in page
    assert "no weather was delivered for this day" in page
    assert [path.name for path in report_dir.iterdir()] == ["index.html"]


@pytest.mark.parametrize(
    ("change", "column", "observed", "example"),
    [
        (set_first("temp_f", 400.0), "temp_f", "1 of 929 rows outside", "400 in "),
        (set_first("wind_speed_mph", 1048.0, -1.0), "wind_speed_mph", "2 of 929 rows outside", "1048 in "),
        (set_first("sched_dep_minute", 1440), "sched_dep_minute", "1 of 929 rows outside", "1440 in "),
        (set_first("late", 2), "late", "1 of 929 rows outside", "2 in "),
        (set_first("carrier", None), "carrier", "1 of 929 rows outside", ""),
        (set_first("origin", "BOS"), "origin", "1 of 929 rows outside", "BOS in "),
        (set_first("dest", "Boston"), "dest", "1 of 929 rows outside", "Boston in "),
        (set_first("flight_id", "twice", "twice"), "flight_id", "2 of 929 rows outside", "twice in twice"),
        (set_first("date", date(2013, 1, 11)), "rows_of_other_days", "1 of 1 days outside", f"1 on {ORDINARY}"),
        (set_share("late", 1, 1.0), "late_share", "1 of 1 days outside", f"1 on {ORDINARY}"),
        (set_share("late", 0, 1.0), "late_share", "1 of 1 days outside", f"0 on {ORDINARY}"),
        (lambda table: table[:50], "rows", "1 of 1 days outside", f"50 on {ORDINARY}"),
        (lambda table: table[:0], "rows", "1 of 1 days outside", f"0 on {ORDINARY}"),
    ],
    ids=[
        "hot", "hurricane", "minute", "label", "null", "airport", "code", "twice", "date", "all-late", "none-late",
        "few", "empty",
    ],
)  # fmt: skip
def test_the_gate_refuses_and_says_what_to_do_when_an_expectation_fails(
    good: pa.Table,
    tmp_path: Path,
    change: Callable[[pa.Table], pa.Table],
    column: str,
    observed: str,
    example: str,
) -> None:
    result = judged(tmp_path, change(good))
    assert result["passed"] is False
    failures = {failure["column"]: failure for failure in result["failed"]}
    assert list(failures) == [column]
    failure = failures[column]
    assert failure["observed"] == observed
    assert failure["limit"]
    assert failure["advice"]
    assert failure["sentence"].startswith(f"{column}: observed {observed}")
    assert example in ", ".join(failure["examples"])
    assert failure["days"] == [ORDINARY]
    page = (tmp_path / "report" / "index.html").read_text()
    assert '<td class="fail">fail</td>' in page
    assert failure["advice"].split("'")[0] in page


@pytest.mark.parametrize(
    ("change", "dropped", "column"),
    [
        (set_share("weather_missing", True, 0.2), {}, "weather_missing_share"),
        (set_share("tailnum", None, 0.1), {}, "tailnum_null_share"),
        (set_share("plane_seats", None, 0.5), {}, "plane_seats_null_share"),
        (set_share("temp_f", None, 0.2), {}, "temp_f_null_share"),
        (lambda table: table[:300], {}, "rows"),
        (lambda table: table, {"cancelled": 900}, "cancelled_share"),
        (lambda table: table, {"malformed": 5}, "malformed_share"),
    ],
    ids=["weather", "tailnum", "seats", "temperature", "few", "cancelled", "malformed"],
)
def test_the_gate_warns_and_passes_when_training_can_live_with_it(
    good: pa.Table, tmp_path: Path, change: Callable[[pa.Table], pa.Table], dropped: dict[str, int], column: str
) -> None:
    result = judged(tmp_path, change(good), dropped)
    assert result["passed"] is True
    assert [warning["column"] for warning in result["warnings"]] == [column]
    assert '<td class="warn">warning</td>' in (tmp_path / "report" / "index.html").read_text()


def test_what_comes_from_data_is_escaped_when_the_report_shows_it(good: pa.Table, tmp_path: Path) -> None:
    judged(tmp_path, set_first("dest", "<script>")(good))
    page = (tmp_path / "report" / "index.html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda table: table.drop_columns("carrier"), "column 'carrier' of type string is missing; found flight_id,"),
        (
            lambda table: table.set_column(11, "distance_miles", pc.cast(table["distance_miles"], pa.float32())),
            "column 'distance_miles': expected type double, found float",
        ),
        (lambda table: table.append_column("gate", table["dest"]), "column 'gate' of type string is not expected"),
    ],
    ids=["missing", "retyped", "added"],
)
def test_file_and_column_are_named_when_the_schema_has_changed(
    good: pa.Table, tmp_path: Path, change: Callable[[pa.Table], pa.Table], says: str
) -> None:
    assert list(COLUMNS)[11] == "distance_miles"
    result = judged(tmp_path, change(good))
    assert result["passed"] is False
    assert result["checks"] == 0
    (problem,) = result["problems"]
    assert f"file {tmp_path}" in problem
    assert says in problem
    assert "Build the partition again" in problem
    assert "What is wrong with the files" in (tmp_path / "report" / "index.html").read_text()


def test_each_broken_partition_is_named_when_files_are_missing_or_changed(good: pa.Table, tmp_path: Path) -> None:
    missing, changed, foreign = (a_partition(tmp_path / name, good) for name in ("missing", "changed", "foreign"))
    (missing.parent / Manifest.read(missing).files[0].path).unlink()
    with (changed.parent / Manifest.read(changed).files[0].path).open("ab") as file:
        file.write(b"more")
    replace(Manifest.read(foreign), dataset="ships").write(foreign)
    nowhere = tmp_path / "nowhere" / "manifest.json"
    result_file = tmp_path / "result.json"
    options = [option for path in (missing, changed, foreign, nowhere) for option in ("--manifest", path)]
    arguments = ["--dataset", "flights", *options, "--report-dir", tmp_path / "report", "--json-result", result_file]
    run = run_job("gate", *arguments)
    assert run.returncode == 65, run.stdout + run.stderr
    result = json.loads(result_file.read_text())
    assert result["passed"] is False
    said = dict(zip(("missing", "changed", "foreign", "nowhere"), result["problems"], strict=True))
    assert "can't be read: No such file" in said["missing"]
    assert "was changed after it was written" in said["changed"]
    assert "is of dataset 'ships'" in said["foreign"]
    assert "there is none" in said["nowhere"]
    assert all(f"refused: {problem}" in run.stdout for problem in result["problems"])


def test_an_unknown_suite_is_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    run = run_job("gate", "--dataset", "ships", "--manifest", tmp_path / "m", "--report-dir", tmp_path)
    assert run.returncode == 64
    assert "--dataset 'ships': there is no such suite; there is 'flights'" in run.stdout
