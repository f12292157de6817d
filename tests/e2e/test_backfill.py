"""A week backfilled through the API, and once more: the second time does no Spark and no training work."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from airflow_api import AirflowApi, wait_for

from gang_controller.wiring import open_ledger, open_registry
from gang_ledgers.history_check import overlaps

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(5400)]
DAG_ID = "nightly_retraining"
DAYS = [f"2013-01-{day}" for day in range(10, 17)]
LIMIT_S = 2400.0


def backfill(api: AirflowApi, **options: Any) -> dict[str, str]:
    """Backfill the week and wait; the run id of each day."""
    conf = {"window_days": 5, "epochs": 2}
    made = api.backfill(DAG_ID, "2013-01-10T00:00:00Z", "2013-01-16T00:00:00Z", dag_run_conf=conf, **options)
    wait_for(lambda: api.call("GET", f"/api/v2/backfills/{made}")["completed_at"], "the backfill ends", LIMIT_S, 2.0)
    runs = [run for run in api.runs(DAG_ID) if run["run_type"] == "backfill" and run["logical_date"][:10] in DAYS]
    assert [run["state"] for run in runs] == ["success"] * 7
    return {run["logical_date"][:10]: run["dag_run_id"] for run in runs}


def test_a_week_s_backfill_trains_each_day_once_and_done_again_does_nothing(stack: Any) -> None:
    stack.switch_on_nightly()
    api: AirflowApi = stack.api
    runs = backfill(api, max_active_runs=2)
    assert sorted(runs) == DAYS
    launches = launched(stack.home, runs)
    assert launches == Counter(f"{DAG_ID}/{run}/train" for run in runs.values())
    manifests = {path: path.read_bytes() for path in stack.home.glob("data/flights/day=*/manifest.json")}
    with_champion = pointer_moves(stack.home)

    again = backfill(api, max_active_runs=2, reprocess_behavior="completed")
    assert again == runs
    assert launched(stack.home, runs) == launches
    assert {path: path.read_bytes() for path in manifests} == manifests
    assert pointer_moves(stack.home) == with_champion
    for run_id in runs.values():
        tasks = api.tasks(DAG_ID, run_id)
        assert "Spark isn't started" in api.log(DAG_ID, run_id, "preprocess", tasks["preprocess"]["try_number"])


def launched(home: Any, runs: dict[str, str]) -> Counter[str]:
    """How often each gang of these runs was launched; no two attempts of one ever overlapped."""
    ledger = open_ledger(home)
    rows = [row for run_id in runs.values() for row in ledger.history(f"{DAG_ID}/{run_id}/train")]
    ledger.close()
    assert overlaps(rows) == []
    return Counter(row.gang_id for row in rows if row.event == "launched")


def pointer_moves(home: Any) -> int:
    """How often the champion pointer has moved."""
    registry = open_registry(home)
    moves = len(registry.history("flights"))
    registry.close()
    return moves
