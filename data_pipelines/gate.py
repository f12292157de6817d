"""Decides whether partitions are fit for training: `python -m data_pipelines.gate --dataset flights --manifest ...`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_pipelines.durable_files import write_atomically
from data_pipelines.flights_columns import COLUMNS, DATASET
from data_pipelines.job_command import run_job, write_result
from data_pipelines.job_errors import BAD_DATA, DONE, BadData, BadSpec
from data_pipelines.manifest import Manifest, ManifestError

if TYPE_CHECKING:
    import pandas as pd

    from data_pipelines.quality.check import Outcome

log = logging.getLogger(f"{__package__}.gate")  # also as __main__

RESULT_SCHEMA = 1
REPORT = "index.html"


@dataclass
class Partitions:
    """What could be opened of the partitions that shall be judged, and what could not."""

    paths: list[Path] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    tables: list[pd.DataFrame] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def judge(dataset: str, manifest_paths: Sequence[Path], report_dir: Path) -> dict[str, Any]:
    """Verify the files, run the suite, write the report; returns the result as the command line writes it."""
    from data_pipelines.quality.report import render

    report_dir.mkdir(parents=True, exist_ok=True)
    partitions = _open_all(dataset, manifest_paths)
    outcomes = [] if partitions.problems else _run_suite(partitions, report_dir)
    failed = [outcome for outcome in outcomes if outcome.stops]
    warned = [outcome for outcome in outcomes if not outcome.passed and not outcome.stops]
    rows = sum(manifest.rows for manifest in partitions.manifests)
    if partitions.problems:
        sentence = f"refused: {len(partitions.problems)} of {len(manifest_paths)} partitions can't be used as they are"
    else:
        sentence = (
            f"{'refused' if failed else 'passed'}: {rows:,} rows of {len(manifest_paths)} partitions, "
            f"{len(outcomes)} checks, {len(failed)} failed, {len(warned)} warnings"
        )
    page = render(dataset, sentence, outcomes, partitions.manifests, partitions.problems)
    write_atomically(report_dir / REPORT, page.encode())
    return {
        "schema": RESULT_SCHEMA,
        "dataset": dataset,
        "passed": not partitions.problems and not failed,
        "sentence": sentence,
        "problems": partitions.problems,
        "failed": [outcome.as_json() | {"sentence": outcome.sentence} for outcome in failed],
        "warnings": [outcome.as_json() | {"sentence": outcome.sentence} for outcome in warned],
        "checks": len(outcomes),
        "rows": rows,
        "partitions": [
            {"partition": manifest.partition, "manifest": str(path), "digest": manifest.digest, "rows": manifest.rows}
            for path, manifest in zip(partitions.paths, partitions.manifests, strict=True)
        ],
        "report": str((report_dir / REPORT).absolute()),
    }


def _open_all(dataset: str, manifest_paths: Sequence[Path]) -> Partitions:
    found = Partitions()
    for path in manifest_paths:
        try:
            manifest, table = open_partition(dataset, path)
        except BadData as error:
            found.problems.append(str(error))
        else:
            found.paths.append(path.absolute())
            found.manifests.append(manifest)
            found.tables.append(table)
    return found


def open_partition(dataset: str, path: Path) -> tuple[Manifest, pd.DataFrame]:
    """The manifest and the verified rows of a partition, with its name in a column `partition`.

    Raises:
        BadData: a file is missing or changed, or its columns aren't those of the dataset.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    manifest = Manifest.read(path)
    if manifest.dataset != dataset:
        raise ManifestError(f"manifest {path} is of dataset {manifest.dataset!r}; {dataset!r} was asked for")
    manifest.verify(path.parent)
    tables = []
    for file in manifest.files:
        data = path.parent / file.path
        try:
            schema = pq.read_schema(data)
            _check_columns(data, {column.name: str(column.type) for column in schema})
            table = pq.read_table(data)
        except (OSError, pa.ArrowException) as error:
            raise BadData(f"file {data} is no readable Parquet: {error}. Remove {path} and build again.") from None
        if table.num_rows != file.rows:
            raise BadData(f"file {data}: the manifest names {file.rows} rows, it has {table.num_rows}. Build it again.")
        tables.append(table)
    frame = pa.concat_tables(tables).to_pandas()
    frame.insert(0, "partition", manifest.partition)
    return manifest, frame


def _check_columns(path: Path, found: dict[str, str]) -> None:
    where = f"file {path}"
    what_to_do = (
        "(expected: data_pipelines/flights_columns.py). Build the partition again with this version of the code."
    )
    for name, kind in COLUMNS.items():
        if name not in found:
            raise BadData(f"{where}: column {name!r} of type {kind} is missing; found {', '.join(found)} {what_to_do}")
        if found[name] != kind:
            raise BadData(f"{where}: column {name!r}: expected type {kind}, found {found[name]} {what_to_do}")
    if unknown := [name for name in found if name not in COLUMNS]:
        raise BadData(f"{where}: column {unknown[0]!r} of type {found[unknown[0]]} is not expected {what_to_do}")


def _run_suite(partitions: Partitions, report_dir: Path) -> list[Outcome]:
    import pandas as pd

    from data_pipelines.quality import flights_suite
    from data_pipelines.quality.check import About
    from data_pipelines.quality.validation import validate

    rows = pd.concat(partitions.tables, ignore_index=True)
    tables = {About.ROWS: rows, About.DAYS: flights_suite.daily_figures(partitions.manifests, rows)}
    with tempfile.TemporaryDirectory(prefix=".gate-", dir=report_dir) as scratch:
        tempfile.tempdir = scratch  # Great Expectations leaves a folder behind in it
        try:
            return validate(flights_suite.checks(), tables)
        finally:
            tempfile.tempdir = None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m data_pipelines.gate", description=__doc__)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--manifest", type=Path, action="append", required=True, help="may be given more than once")
    parser.add_argument("--report-dir", type=Path, required=True, help=f"gets {REPORT}")
    parser.add_argument("--json-result", type=Path, help="where to write the result; also when the gate refuses")
    given = parser.parse_args(arguments)

    def job() -> int:
        if given.dataset != DATASET:
            raise BadSpec(f"--dataset {given.dataset!r}: there is no such suite; there is {DATASET!r}")
        result = judge(given.dataset, given.manifest, given.report_dir)
        write_result(given.json_result, result)
        for warning in result["warnings"]:
            log.info("warning: %s", warning["sentence"])
        for problem in result["problems"]:
            log.error("refused: %s", problem)
        for failure in result["failed"]:
            log.error("failed: %s", failure["sentence"])
        log.info("report: %s", result["report"])
        log.info("%s %s", given.dataset, result["sentence"])
        return DONE if result["passed"] else BAD_DATA

    return run_job(job)


if __name__ == "__main__":
    sys.exit(main())
