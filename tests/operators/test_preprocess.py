from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from operators.params import TrainingParams
from operators.preprocess import SparkPreprocessOperator

# Builds what is asked for, as far as it isn't there, and says what it did.
BUILDS = """
    data = Path(given["--data-dir"][0])
    days = given["--days"][0].split(",")
    partitions = []
    for day in days:
        manifest = data / day / "manifest.json"
        if not manifest.exists():
            manifest.parent.mkdir(parents=True)
            manifest.write_text("{}")
            print("built", day)
        partitions.append({"partition": day, "manifest": str(manifest), "digest": "digest of " + day})
    answer(partitions=partitions)
"""


def a_context(ti: Any, day: datetime, **params: Any) -> Any:
    asked = TrainingParams(**params).model_dump()
    run, dag = SimpleNamespace(conf=params), SimpleNamespace(params=TrainingParams.as_airflow())
    return {"ti": ti, "params": asked, "data_interval_start": day, "dag_run": run, "dag": dag}


def at_two(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, 2, tzinfo=UTC)


def test_the_day_and_its_window_are_built_and_named_for_what_follows(
    home: Path, ti: Any, a_module: Callable[[str, str], str]
) -> None:
    operator = SparkPreprocessOperator(task_id="preprocess", job=a_module("fake_flights", BUILDS))
    output = operator.execute(a_context(ti, at_two(2026, 1, 4), window_days=2))
    assert output == {
        "day": "2013-01-04",
        "window": ["2013-01-02", "2013-01-03"],
        "manifests": {f"2013-01-0{n}": str(home / "data" / f"2013-01-0{n}" / "manifest.json") for n in (2, 3, 4)},
        "digests": {f"2013-01-0{n}": f"digest of 2013-01-0{n}" for n in (2, 3, 4)},
        "asked_with": str(ti.id),
    }


def test_a_run_of_a_29_february_is_skipped_with_the_reason(home: Path, ti: Any) -> None:
    operator = SparkPreprocessOperator(task_id="preprocess", job="never_run")
    with pytest.raises(AirflowSkipException, match="2028-02-29 has no counterpart in 2013"):
        operator.execute(a_context(ti, at_two(2028, 2, 29)))


def test_a_misspelt_parameter_is_refused_before_anything_runs(home: Path, ti: Any) -> None:
    context = a_context(ti, at_two(2026, 1, 4))
    context["dag_run"].conf = {"learnig_rate": 0.1}
    with pytest.raises(AirflowFailException, match=r"'learnig_rate'.*no parameter for"):
        SparkPreprocessOperator(task_id="preprocess", job="never_run").execute(context)


def test_a_bad_parameter_is_refused_before_anything_runs(home: Path, ti: Any) -> None:
    operator = SparkPreprocessOperator(task_id="preprocess", job="never_run", window_days="many")
    with pytest.raises(AirflowFailException, match="window_days = 'many'"):
        operator.execute(a_context(ti, at_two(2026, 1, 4)))


def without_interval(ti: Any, dag: DAG) -> Any:
    run = SimpleNamespace(run_after=datetime(2026, 1, 4, 23, 30, tzinfo=UTC), conf={})
    return {"ti": ti, "params": {"window_days": 1}, "dag": dag, "dag_run": run}


def test_a_run_without_a_logical_date_works_on_the_last_complete_interval(
    home: Path, ti: Any, a_module: Callable[[str, str], str]
) -> None:
    operator = SparkPreprocessOperator(task_id="preprocess", job=a_module("fake_flights", BUILDS))
    with DAG("d", schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC")) as dag:
        assert operator.execute(without_interval(ti, dag))["day"] == "2013-01-03"  # that of the 4th is not over yet


def test_a_run_of_a_dag_without_intervals_is_refused_with_what_to_do(home: Path, ti: Any) -> None:
    operator = SparkPreprocessOperator(task_id="preprocess", job="never_run")
    with DAG("d", schedule=None) as dag, pytest.raises(AirflowFailException, match="CronDataIntervalTimetable"):
        operator.execute(without_interval(ti, dag))


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ("print('column dep_time is missing'); sys.exit(65)", AirflowFailException, "column dep_time is missing"),
        ("answer(partitions=[])", AirflowFailException, "says nothing of 2013-01-03, 2013-01-04"),
        ("pass", AirflowException, "its result file can't be read"),
    ],
    ids=["bad data", "days left out", "no result"],
)
def test_a_job_that_does_not_do_what_was_asked_is_an_error(
    home: Path, ti: Any, a_module: Callable[[str, str], str], source: str, error: type[Exception], said: str
) -> None:
    operator = SparkPreprocessOperator(task_id="preprocess", job=a_module("broken_flights", source), window_days=1)
    with pytest.raises(error, match=said):
        operator.execute(a_context(ti, at_two(2026, 1, 4)))
