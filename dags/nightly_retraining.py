"""Retrains the flights model every night: yesterday's partition, a gang of workers, and a fair comparison.

The run at midnight (UTC) works on the day that has just ended: its data interval is that calendar day. It builds the
day's partition and what is missing of the window before it, checks them, trains on the window (never on the day
itself), compares the new model with the champion as of that day on the day that neither has seen, and promotes it if it
is better by the margin.

* **Trigger** it with other parameters from the form; the last complete interval is taken.
* **Backfill** a range of dates, in either order: 10 to 16 January are the seven runs of those days. Work that is
  already committed is not done again.
* `replay_year` maps the day to a year that the source holds; a 29 February that it lacks is skipped with a reason.
* A run that is older than the production champion registers its model and leaves the champion alone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from operators.evaluate import EvaluateOperator
from operators.params import TrainingParams
from operators.preprocess import SparkPreprocessOperator
from operators.promote import PromoteOperator
from operators.train import TrainOperator
from operators.validate import ValidateOperator

with DAG(
    "nightly_retraining",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    params=TrainingParams.as_airflow(),
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["phalanx", "training"],
    doc_md=__doc__,
):
    days = SparkPreprocessOperator(task_id="preprocess", job="data_pipelines.flights")
    gate = ValidateOperator(task_id="validate", suite="flights", data=days.output)
    train = TrainOperator(
        task_id="train",
        recipe="flights",
        data=days.output,
        gang_pool="local",
        workers="{{ params.workers }}",
        start_limit=timedelta(minutes=10),
        run_limit=timedelta(hours=3),
    )
    report = EvaluateOperator(task_id="evaluate", model=train.output, data=days.output)
    promote = PromoteOperator(task_id="promote", recipe="flights", report=report.output, margin="{{ params.margin }}")

    days >> gate >> train >> report >> promote
