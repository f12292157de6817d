"""Looks after the gang ledger every few minutes; cheap, and harmless to miss."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from operators.gang_upkeep import GangUpkeepOperator

with DAG(
    "gang_upkeep",
    schedule=timedelta(minutes=5),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    dagrun_timeout=timedelta(minutes=10),
    tags=["phalanx", "upkeep"],
    doc_md=__doc__,
):
    GangUpkeepOperator(task_id="reconcile", retries=2, retry_delay=timedelta(seconds=20))
