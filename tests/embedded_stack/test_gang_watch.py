from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from embedded_stack.airflow_api import AirflowApi
from embedded_stack.gang_watch import GangWatch
from embedded_stack.run_follower import RunFollower
from gang_ledgers.ledger import GangRecord, LedgerUnavailable, Progress
from gang_scheduler.gang_state import GangState
from tests.builders import a_gang

GANG_ID = "nightly/manual__1/train"


@dataclass
class Gangs:
    """What the ledger says; it can be out of reach."""

    records: dict[str, GangRecord] = field(default_factory=dict)
    is_reachable: bool = True

    def put(self, state: GangState, **changes: Any) -> None:
        when = datetime(2026, 1, 1, tzinfo=UTC)
        record = GangRecord(GANG_ID, 1, 1, state, a_gang(), "/run", "owner", when)
        self.records[GANG_ID] = replace(record, **changes)

    def states(self, gang_ids: Sequence[str]) -> Mapping[str, GangRecord]:
        if not self.is_reachable:
            raise LedgerUnavailable("down")
        return {gang_id: self.records[gang_id] for gang_id in gang_ids if gang_id in self.records}


@pytest.fixture
def gangs() -> Gangs:
    return Gangs()


@pytest.fixture
def watch(gangs: Gangs) -> GangWatch:
    return GangWatch(gangs.states, every_s=5)


def told(watch: GangWatch, now_s: float = 0) -> list[str]:
    return [line for _, line in watch.lines([GANG_ID], now_s)]


def at_step(step: int) -> Progress:
    return Progress(step=step, total_steps=400, loss=0.43129, throughput_samples_per_s=12345.6, eta_s=35.2)


def test_progress_is_told_at_a_modest_pace(gangs: Gangs, watch: GangWatch) -> None:
    gangs.put(GangState.RUNNING, progress=at_step(120))
    assert told(watch, 100) == ["step 120/400, loss 0.4313, 12,346 samples/s, ETA 0:00:35"]
    gangs.put(GangState.RUNNING, progress=at_step(150))
    assert told(watch, 104.9) == []
    assert told(watch, 105) == ["step 150/400, loss 0.4313, 12,346 samples/s, ETA 0:00:35"]
    assert told(watch, 200) == []  # no step since


def test_another_attempt_is_named(gangs: Gangs, watch: GangWatch) -> None:
    gangs.put(GangState.RUNNING, attempt=2, progress=Progress(step=101))
    assert told(watch) == ["attempt 2: step 101"]


def test_nothing_is_told_before_the_first_step_and_after_the_end(gangs: Gangs, watch: GangWatch) -> None:
    for state, progress in ((GangState.STARTING, None), (GangState.RUNNING, Progress(step=0))):
        gangs.put(state, progress=progress)
        assert told(watch) == []
    gangs.put(GangState.SUCCEEDED, progress=at_step(400))
    assert told(watch) == []


def test_a_wait_is_told_once_for_each_reason(gangs: Gangs, watch: GangWatch) -> None:
    gangs.put(GangState.QUEUED, wait_sentence="asks 2 CPUs; 1 is free")
    assert told(watch) == ["waiting: asks 2 CPUs; 1 is free"]
    assert told(watch) == []
    gangs.put(GangState.QUEUED, wait_sentence="3rd in its queue")
    assert told(watch) == ["waiting: 3rd in its queue"]
    gangs.put(GangState.RUNNING, wait_sentence="3rd in its queue", progress=Progress(step=1))
    assert told(watch) == ["step 1"]


class Airflow(AirflowApi):
    """A run of one deferred task, which ends after a few looks."""

    def __init__(self, looks: int) -> None:
        super().__init__("http://airflow", "user", "password")
        self.looks_left = looks

    def call(self, method: str, path: str, body: Any = None) -> Any:  # noqa: ARG002 - the base class's
        is_over = self.looks_left < 0
        if path.endswith("/taskInstances?limit=100"):
            state = "success" if is_over else "deferred"
            task = {"task_id": "train", "map_index": -1, "try_number": 1, "start_date": None, "duration": 1.0}
            return {"task_instances": [{**task, "state": state}]}
        if "xcomEntries" in path:
            return {"value": None}
        self.looks_left -= 1
        return {"state": "running" if self.looks_left >= 0 else "success"}


@pytest.mark.parametrize("is_reachable", [True, False], ids=["ledger answers", "ledger is away"])
def test_a_followed_run_tells_of_the_gangs_that_its_deferred_tasks_wait_for(gangs: Gangs, is_reachable: bool) -> None:
    gangs.is_reachable = is_reachable
    gangs.put(GangState.RUNNING, progress=Progress(step=7))
    said: list[str] = []
    follower = RunFollower(Airflow(looks=1), said.append, threading.Event(), GangWatch(gangs.states))
    ended = follower._follow("nightly", "manual__1", "link")
    assert ended is not None
    assert ended.is_success
    assert [line.split("s  ", 1)[1] for line in said] == [
        "train: deferred",
        *(["train: step 7"] if is_reachable else []),
        "train: success after 1.0 s",
    ]
