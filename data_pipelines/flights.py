"""Builds day partitions of the `flights` dataset: `python -m data_pipelines.flights --data-dir D --days ...`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_pipelines.flights_columns import DATASET
from data_pipelines.flights_source import SkipDay, land, replay_day
from data_pipelines.job_command import run_job, write_result
from data_pipelines.job_errors import BadData, BadSpec
from data_pipelines.manifest import InputFile, Manifest, code_version_of, manifest_path
from data_pipelines.partition_build import Built, Want, build_missing
from data_pipelines.raw_flights import FLIGHTS, PLANES, WEATHER, check_columns, delivered, input_files, inputs_of_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(f"{__package__}.flights")  # also as __main__

# What the content of a partition depends on; a change in any of these builds every partition again.
SOURCES = ("flights.py", "flights_columns.py", "flights_transform.py", "partition_writer.py", "raw_flights.py")
DAYS_AT_ONCE = 31
MALFORMED_SHARE_LIMIT = 0.01
RESULT_SCHEMA = 1


def code_version() -> str:
    """Which code makes the partitions: SHA-256 of its sources."""
    return code_version_of(Path(__file__).with_name(name) for name in SOURCES)


@dataclass
class FlightsBuild:
    """Builds days in one Spark session, which starts with the first day that needs it."""

    data_dir: Path
    inputs: Mapping[str, Sequence[InputFile]]
    code_version: str
    stack: ExitStack
    done: int = 0
    _spark: list[SparkSession] = field(default_factory=list)

    @property
    def has_started_spark(self) -> bool:
        return bool(self._spark)

    def __call__(self, days: Sequence[str]) -> None:
        """Build and commit these days."""
        for day in days:
            self._check_raw(day)
        log.info("building %d of %d days: %s", len(days), len(self.inputs), _listed(days))
        for n in range(0, len(days), DAYS_AT_ONCE):
            self._build(days[n : n + DAYS_AT_ONCE])

    def _check_raw(self, day: str) -> None:
        for dataset, of_day in ((FLIGHTS, day), (WEATHER, day), (PLANES, None)):
            for path in delivered(self.data_dir, dataset, of_day):
                check_columns(path, dataset)

    def _build(self, days: Sequence[str]) -> None:
        from data_pipelines.flights_table import split_by_day
        from data_pipelines.flights_transform import flights
        from data_pipelines.partition_writer import write_partition

        files: list[list[Path]] = [[], []]
        for day in days:
            for of_dataset, dataset in zip(files, (FLIGHTS, WEATHER), strict=True):
                of_dataset += delivered(self.data_dir, dataset, day)
        flight_files, weather_files = files
        rows = flights(self._session(), flight_files, weather_files, delivered(self.data_dir, PLANES, None))
        for day, kept, fates, nulled in split_by_day(rows.toArrow(), days):
            rows_in = kept.num_rows + sum(fates.values())
            self._refuse_rubbish(day, fates, rows_in)
            notes = list(_notes(self.inputs[day], kept.num_rows, kept["weather_missing"].to_pylist(), nulled))
            write_partition(
                self.data_dir,
                DATASET,
                day,
                kept,
                inputs=self.inputs[day],
                code_version=self.code_version,
                dropped=fates,
                notes=notes,
            )
            self.done += 1
            log.info(
                "day %s: %d rows in, %s, %d written (%d/%d)%s",
                day,
                rows_in,
                ", ".join(f"{fates[fate]} {said}" for fate, said in SAID.items() if fates[fate] or fate == "duplicate"),
                kept.num_rows,
                self.done,
                len(self.inputs),
                "".join(f"; {note}" for note in notes),
            )

    def _session(self) -> SparkSession:
        from data_pipelines.spark_session import small_spark

        if not self._spark:
            self._spark.append(self.stack.enter_context(small_spark(self.data_dir)))
        return self._spark[0]

    def _refuse_rubbish(self, day: str, fates: Counter[str], rows_in: int) -> None:
        if fates["malformed"] > MALFORMED_SHARE_LIMIT * rows_in:
            raise BadData(
                f"day {day}: {fates['malformed']} of {rows_in} raw rows can't be parsed; at most "
                f"{MALFORMED_SHARE_LIMIT:.0%} may (MALFORMED_SHARE_LIMIT in data_pipelines/flights.py). Look at the "
                f"files in {self.data_dir / FLIGHTS / f'day={day}'} and deliver them again."
            )


SAID = {
    "malformed": "malformed rows dropped",
    "other_day": "rows of another day dropped",
    "duplicate": "duplicates dropped",
    "cancelled": "cancelled",
    "diverted": "diverted",
}


def _notes(inputs: Sequence[InputFile], rows: int, weather_missing: Sequence[bool], nulled: int) -> Iterator[str]:
    missing = sum(weather_missing)
    if not any(file.path.startswith(WEATHER) for file in inputs):
        yield "no weather was delivered for this day"
    elif missing:
        yield f"no weather observation for {missing} of {rows} flights"
    if nulled:
        yield f"{nulled} impossible weather or plane values became null"


def build_flights(data_dir: Path, days: Sequence[date]) -> dict[str, Any]:
    """Land what isn't landed, build what isn't built; returns the result as the command line writes it."""
    started_s = time.monotonic()
    land(data_dir, days)
    planes = input_files(data_dir, delivered(data_dir, PLANES, None))
    inputs = {str(day): inputs_of_day(data_dir, str(day), planes) for day in sorted(set(days))}
    want = Want(data_dir, DATASET, inputs, code_version())
    with ExitStack() as stack:
        build = FlightsBuild(data_dir, inputs, want.code_version, stack)
        built = build_missing(want, build)
        started_spark = build.has_started_spark
    if not built.here and not built.elsewhere:
        log.info(
            "nothing to do: all %d days are built from these inputs by this code; Spark isn't started", len(inputs)
        )
    return {
        "schema": RESULT_SCHEMA,
        "dataset": DATASET,
        "code_version": want.code_version,
        "partitions": [_partition_result(data_dir, day, built) for day in inputs],
        "built": built.here,
        "waited_for": built.elsewhere,
        "reused": [day for day in inputs if day not in built.here],
        "started_spark": started_spark,
        "seconds": round(time.monotonic() - started_s, 3),
    }


def _partition_result(data_dir: Path, day: str, built: Built) -> dict[str, Any]:
    path = manifest_path(data_dir, DATASET, day)
    manifest = Manifest.read(path)
    return {
        "partition": day,
        "manifest": str(path.absolute()),
        "digest": manifest.digest,
        "rows": manifest.rows,
        "dropped": manifest.dropped,
        "notes": manifest.notes,
        "was_built": day in built.here,
    }


def _listed(days: Sequence[str]) -> str:
    return ", ".join(days) if len(days) <= 3 else f"{days[0]} ... {days[-1]}"


def parse_days(text: str, replay_year: int | None) -> tuple[list[date], list[SkipDay]]:
    """The days of a comma-separated list, each `YYYY-MM-DD` or a range `YYYY-MM-DD..YYYY-MM-DD`; and those to skip."""
    days: list[date] = []
    skipped: list[SkipDay] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("..")
        try:
            ordinals = range(date.fromisoformat(first).toordinal(), date.fromisoformat(last or first).toordinal() + 1)
        except ValueError:
            raise BadSpec(f"--days has {part!r}; give days as 2013-01-10, ranges as 2013-01-10..2013-01-16") from None
        for ordinal in ordinals:
            found = replay_day(date.fromordinal(ordinal), replay_year)
            if isinstance(found, SkipDay):
                skipped.append(found)
            else:
                days.append(found)
    if not days and not skipped:
        raise BadSpec(f"--days {text!r} names no day; give at least one, as 2013-01-10 or 2013-01-10..2013-01-16")
    return days, skipped


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m data_pipelines.flights", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of raw rows and partitions")
    parser.add_argument("--days", required=True, help="2013-01-10,2013-01-11 or 2013-01-10..2013-01-16")
    parser.add_argument("--replay-year", type=int, help="take the same calendar days of this year")
    parser.add_argument("--json-result", type=Path, help="where to write the result")
    given = parser.parse_args(arguments)

    def job() -> int:
        days, skipped = parse_days(given.days, given.replay_year)
        for skip in skipped:
            log.info("%s", skip.reason)
        data_dir = given.data_dir.absolute()
        result: dict[str, Any] = build_flights(data_dir, days) if days else {"schema": RESULT_SCHEMA, "partitions": []}
        result["skipped"] = [{"day": str(skip.day), "reason": skip.reason} for skip in skipped]
        write_result(given.json_result, result)
        return 0

    return run_job(job)


if __name__ == "__main__":
    sys.exit(main())
