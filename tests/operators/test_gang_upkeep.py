from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import TaskInstanceState

from gang_ledgers.ledger import GangRecord
from gang_scheduler.gang import GangRequest, WorkerGroup
from gang_scheduler.gang_state import GangState
from operators.gang_upkeep import orphans


def a_gang(gang_id: str) -> GangRecord:
    request = GangRequest(gang_id, "d", "local", (WorkerGroup("worker", 2),), ("-m", "m"), "{}", "digest")
    return GangRecord(gang_id, 1, 1, GangState.RUNNING, request, "/run", "owner", datetime(2026, 1, 1, tzinfo=UTC))


class Airflow:
    """Task states as the execution API gives them: by run, a mapped task with its index behind an underscore."""

    def __init__(self, states: dict[str, dict[str, dict[str, Any]]]) -> None:
        self.states = states
        self.asked: list[str] = []

    def __call__(self, *, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, Any]]:
        self.asked.append(dag_id)
        return {run_id: states for run_id, states in self.states.get(dag_id, {}).items() if run_id in run_ids}


@pytest.mark.parametrize(
    ("state", "is_orphan"),
    [
        ("failed", True),
        ("success", True),
        ("skipped", True),
        ("upstream_failed", True),
        ("removed", True),
        (TaskInstanceState.FAILED, True),
        ("deferred", False),
        ("running", False),
        ("up_for_retry", False),
        ("restarting", False),
        ("queued", False),
        (None, False),  # cleared, not scheduled yet
    ],
)
def test_a_gang_is_an_orphan_when_its_task_is_over(state: Any, is_orphan: bool) -> None:
    found = orphans([a_gang("d/r/t")], Airflow({"d": {"r": {"t": state}}}))
    assert bool(found) is is_orphan


@pytest.mark.parametrize("states", [{}, {"d": {}}, {"d": {"r": {"other": "running"}}}], ids=["dag", "run", "task"])
def test_a_gang_is_an_orphan_when_its_task_is_gone(states: dict[str, Any]) -> None:
    ((_, state),) = orphans([a_gang("d/r/t")], Airflow(states))
    assert state == "gone"


def test_mapped_tasks_are_told_apart_and_each_dag_is_asked_once() -> None:
    airflow = Airflow({"d": {"r": {"t_0": "running", "t_1": "failed"}}, "e": {"r": {"t": "deferred"}}})
    found = orphans([a_gang("d/r/t/0"), a_gang("d/r/t/1"), a_gang("e/r/t")], airflow)
    assert [gang.gang_id for gang, _ in found] == ["d/r/t/1"]
    assert airflow.asked == ["d", "e"]
