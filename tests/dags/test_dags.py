"""The DAG files as Airflow's DAG processor sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

HEAVY = ("torch", "pyspark", "great_expectations", "ray", "pandas", "sklearn")

LOAD = """
import json, resource, sys
import airflow.sdk, airflow.dag_processing.dagbag as bag
before = resource.getrusage(resource.RUSAGE_SELF)
found = bag.DagBag(sys.argv[1], bundle_name="dags")
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "errors": found.import_errors,
    "dags": sorted(found.dags),
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
}))
"""


@pytest.fixture(scope="module")
def parsed(repository: Path) -> dict[str, Any]:
    """What a process of its own finds when it loads the DAG folder."""
    found = subprocess.run(
        [sys.executable, "-c", LOAD, str(repository / "dags")], capture_output=True, text=True, timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr
    return dict(json.loads(found.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def nightly(repository: Path) -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    found = DagBag(str(repository / "dags" / "nightly_retraining.py"), bundle_name="dags")
    dag = found.dags["nightly_retraining"]
    assert isinstance(dag, DAG)
    return dag


def test_every_dag_parses(parsed: dict[str, Any]) -> None:
    assert parsed["errors"] == {}
    assert parsed["dags"] == ["gang_upkeep", "nightly_retraining"]


def test_parsing_imports_nothing_heavy(parsed: dict[str, Any]) -> None:
    assert not set(HEAVY) & set(parsed["modules"])


def test_a_dag_file_is_a_page(repository: Path) -> None:
    for path in (repository / "dags").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 120, path.name


def test_the_nightly_run_goes_from_preprocessing_to_promotion(nightly: DAG) -> None:
    order = [task.task_id for task in nightly.topological_sort()]
    assert order == ["preprocess", "validate", "train", "evaluate", "promote"]
    for before, after in pairwise(order):
        assert after in nightly.get_task(before).downstream_task_ids


def test_gang_tasks_have_phalanx_s_retries_and_the_others_the_dag_s(nightly: DAG) -> None:
    assert nightly.get_task("train").retries == 5
    assert nightly.get_task("preprocess").retries == 2


def test_the_form_is_typed(nightly: DAG) -> None:
    assert nightly.params.get_param("workers").schema["type"] == "integer"
    assert nightly.params.get_param("replay_year").schema["type"] == ["integer", "null"]
    assert nightly.params["replay_year"] == 2013


@pytest.mark.parametrize(
    ("last", "days"),
    [(datetime(2013, 1, 16, 23, 59, tzinfo=UTC), 7), (datetime(2013, 1, 16, tzinfo=UTC), 7)],
    ids=["to the end of the 16th", "to its first moment"],
)
def test_a_backfill_has_one_interval_for_each_day_that_begins_in_it(nightly: DAG, last: datetime, days: int) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    from operators.replay import days_of

    scheduled = DagSerialization.from_dict(DagSerialization.to_dict(nightly))
    runs = list(scheduled.iter_dagrun_infos_between(datetime(2013, 1, 10, tzinfo=UTC), last))
    evaluated = [days_of(run.data_interval.start, 28, 2013) for run in runs if run.data_interval]
    assert [found.day.isoformat() for found in evaluated] == [f"2013-01-{day}" for day in range(10, 10 + days)]
    assert all((found.day - found.window[-1]).days == 1 for found in evaluated)


def test_a_manual_run_takes_the_last_complete_interval(nightly: DAG) -> None:
    from airflow.serialization.serialized_objects import DagSerialization
    from pendulum import instance

    scheduled = DagSerialization.from_dict(DagSerialization.to_dict(nightly))
    interval = scheduled.timetable.infer_manual_data_interval(
        run_after=instance(datetime(2026, 12, 1, 1, 30, tzinfo=UTC))
    )
    assert (interval.start, interval.end) == (
        datetime(2026, 11, 30, tzinfo=UTC),
        datetime(2026, 12, 1, tzinfo=UTC),
    )
