"""A gang task's life over a real ledger: ask, wait, tell, be woken; the workers are played by the test."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import TriggerEvent

from gang_backends.backend import AttemptState, LaunchOrder, Liveness
from gang_controller.controller import GangController
from gang_ledgers.ledger import Progress
from gang_ledgers.sql import SqlLedger
from gang_scheduler.gang import AttemptKey, GangRequest
from gang_scheduler.gang_state import GangState
from gang_scheduler.verdict import AttemptEnd, RankOutcome
from operators import gang_poller
from operators.gang import GangOperator
from operators.gang_errors import GangFailed, GangInterrupted
from operators.gang_poller import GangPoller
from operators.gang_trigger import GangTrigger
from operators.gangs import open_gangs
from tests.builders import a_node_record

HOST = "this-host"


@dataclass
class PlayedBackend:
    """Launches nothing: it remembers what it was told, and the test says what becomes of it."""

    orders: dict[AttemptKey, LaunchOrder] = field(default_factory=dict)
    stopped: list[AttemptKey] = field(default_factory=list)

    def launch(self, order: LaunchOrder, env: Mapping[str, str]) -> str:  # noqa: ARG002 - the protocol's
        self.orders[order.key] = order
        return f"ref of {order.key}"

    def state(self, ref: str, run_dir: str, key: AttemptKey) -> AttemptState:  # noqa: ARG002 - the protocol's
        return AttemptState(Liveness.ALIVE, "played")

    def stop(self, ref: str, run_dir: str, key: AttemptKey, grace: timedelta) -> None:  # noqa: ARG002 - the protocol's
        self.stopped.append(key)


@dataclass
class Cluster:
    """One host of two slots, and what its supervisors do."""

    controller: GangController
    backend: PlayedBackend
    eventually: Callable[..., None]

    def launched(self, attempt: int, gang_id: str = "") -> AttemptKey:
        """Wait for that launch, and confirm it as its supervisor does."""
        found: list[AttemptKey] = []

        def look() -> bool:
            found[:] = [
                k for k in self.backend.orders if k.attempt == attempt and (not gang_id or k.gang_id == gang_id)
            ]
            return bool(found)

        self.eventually(look, f"launch of attempt {attempt}")
        key = found[-1]
        self.eventually(lambda: self.controller.start(key, f"ref of {key}"), "the attempt to be allowed to start")
        return key

    def steps(self, key: AttemptKey, step: int) -> None:
        self.controller.renew(
            key, Progress(step=step, total_steps=100, loss=0.5, claimed_attempt=key.attempt, last_committed_step=step)
        )

    def succeeds(self, key: AttemptKey) -> None:
        self.controller.end_attempt(key, AttemptEnd(0, proof="played"), {"model_dir": "/m", "model_digest": "w"})

    def rank_is_killed(self, key: AttemptKey, step: int) -> None:
        ranks = (RankOutcome(0, None), RankOutcome(1, -9))
        self.controller.end_attempt(key, AttemptEnd(1, ranks, last_step=step, last_committed_step=50, proof="played"))

    def program_fails(self, key: AttemptKey) -> None:
        ranks = (RankOutcome(0, 70, "ValueError", "loss is not finite"), RankOutcome(1, 70, "ValueError", "loss"))
        self.controller.end_attempt(key, AttemptEnd(1, ranks, last_step=3, proof="played"))

    def stops(self, key: AttemptKey) -> None:
        ranks = (RankOutcome(0, 75), RankOutcome(1, 75))
        self.controller.end_attempt(
            key, AttemptEnd(1, ranks, was_asked_to_stop=True, last_step=57, last_committed_step=57, proof="played")
        )


@pytest.fixture
def cluster(home: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]) -> Iterator[Cluster]:
    backend = PlayedBackend()

    def open_controller() -> GangController:
        ledger = SqlLedger(f"sqlite:///{home}/ledger.db", runs_dir=home / "runs")
        ledger.register_node(a_node_record("node-x", host_id=HOST))
        return GangController(ledger, {"local": backend}, host_id=HOST)

    monkeypatch.setattr("gang_controller.wiring.open_controller", open_controller)
    poller = GangPoller(open_gangs, every_s=0.05, idle_s=0.1)
    monkeypatch.setattr(gang_poller, "_shared", poller)
    controller = open_controller()
    yield Cluster(controller, backend, eventually)
    eventually(lambda: not poller.is_running, "the poller to end")
    controller.close()


def a_gang(**changes: Any) -> GangOperator:
    given: dict[str, Any] = {"command": ("-m", "m", "{run_spec}"), "run_spec": {"x": 1}, "workers": 2}
    return GangOperator(task_id="task", **given | changes)


def asks(ti: Any, **changes: Any) -> GangTrigger:
    """Execute the task up to its deferral."""
    with pytest.raises(TaskDeferred) as deferred:
        a_gang(**changes).execute({"ti": ti})
    trigger = deferred.value.trigger
    assert isinstance(trigger, GangTrigger)
    assert deferred.value.method_name == "resume"
    return trigger


def resumes(ti: Any, **changes: Any) -> Any:
    return a_gang(**changes).resume({"ti": ti}, {"state": "whatever"})


def waits(trigger: GangTrigger, meanwhile: Callable[[], None]) -> TriggerEvent:
    """Run the trigger until it fires, with the cluster doing its part in another thread."""

    trigger._log = logging.getLogger("trigger")  # type: ignore[assignment]  # where pytest sees it

    async def first() -> TriggerEvent:
        async with asyncio.timeout(60):
            async for event in trigger.run():
                return event
        raise AssertionError("the trigger ended without an event")

    with ThreadPoolExecutor(1) as stage:
        played = stage.submit(meanwhile)
        try:
            return asyncio.run(first())
        finally:
            played.result(timeout=60)


def remade(trigger: GangTrigger) -> GangTrigger:
    """The trigger as a triggerer makes it from what was stored."""
    path, arguments = trigger.serialize()
    assert path == "operators.gang_trigger.GangTrigger"
    return GangTrigger(**arguments)


def test_a_gang_s_task_ends_with_its_success(cluster: Cluster, ti: Any, caplog: pytest.LogCaptureFixture) -> None:
    trigger = asks(ti)

    def meanwhile() -> None:
        key = cluster.launched(1)
        cluster.steps(key, 40)
        cluster.succeeds(key)

    with caplog.at_level(logging.INFO):
        event = waits(remade(trigger), meanwhile)
    assert event.payload == {"gang_id": trigger.gang_id, "state": "succeeded"}
    assert resumes(ti)["gang_id"] == f"nightly/{ti.run_id}/task"
    (order,) = cluster.backend.orders.values()
    assert order.request.workers == 2
    assert "node-x" in caplog.text  # where it was admitted


def test_a_killed_rank_is_recovered_within_the_try_and_told(
    cluster: Cluster, ti: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def meanwhile() -> None:
        first = cluster.launched(1)
        cluster.steps(first, 57)
        cluster.rank_is_killed(first, 57)
        second = cluster.launched(2)
        cluster.steps(second, 60)
        cluster.succeeds(second)

    trigger = asks(ti)
    with caplog.at_level(logging.INFO):
        waits(trigger, meanwhile)
    assert resumes(ti)["submission"] == 1
    assert "rank 1 was killed by SIGKILL" in caplog.text
    assert "attempt 2" in caplog.text


def test_a_program_s_failure_fails_the_task_with_the_verdict(cluster: Cluster, ti: Any) -> None:
    waits(asks(ti), lambda: cluster.program_fails(cluster.launched(1)))
    with pytest.raises(GangFailed, match="loss is not finite"):
        resumes(ti)


def test_a_gang_that_waits_says_why(cluster: Cluster, ti: Any, caplog: pytest.LogCaptureFixture) -> None:
    other = replace(ti, run_id="other")
    asks(ti)
    asks_second = asks(other)

    def meanwhile() -> None:
        first = cluster.launched(1, f"nightly/{ti.run_id}/task")
        cluster.eventually(lambda: "waits, no capacity: asks 2 workers" in caplog.text, "the wait to be told")
        assert len(cluster.backend.orders) == 1
        cluster.succeeds(first)
        cluster.succeeds(cluster.launched(1, "nightly/other/task"))

    with caplog.at_level(logging.INFO):
        waits(asks_second, meanwhile)


def test_on_kill_stops_the_gang_with_a_checkpoint_and_a_clear_resumes_it(cluster: Cluster, ti: Any) -> None:
    trigger = asks(ti)
    cluster.controller.tick()
    key = cluster.launched(1)
    cluster.steps(key, 57)
    asyncio.run(trigger.on_kill())
    cluster.eventually(lambda: cluster.backend.stopped == [key], "the attempt to be told")
    cluster.stops(key)
    cluster.controller.tick()
    record = cluster.controller.state(trigger.gang_id)
    assert record is not None
    assert record.state is GangState.INTERRUPTED

    cleared = ti.cleared()

    def meanwhile() -> None:
        cluster.succeeds(cluster.launched(2))

    waits(asks(cleared), meanwhile)
    assert resumes(cleared)["submission"] == 1


def test_a_release_by_a_try_that_no_longer_owns_the_gang_is_ignored(cluster: Cluster, ti: Any) -> None:
    old = asks(ti)
    new = asks(ti.retried())
    asyncio.run(old.on_kill())
    record = cluster.controller.state(new.gang_id)
    assert record is not None
    assert record.state is GangState.QUEUED
    assert record.owner == new.owner


def test_a_retry_after_a_lost_process_watches_the_same_attempt(cluster: Cluster, ti: Any) -> None:
    asks(ti)
    cluster.controller.tick()
    key = cluster.launched(1)
    again = ti.retried()
    waits(asks(again), lambda: cluster.succeeds(key))
    assert resumes(again)["submission"] == 1
    assert list(cluster.backend.orders) == [key]


def test_an_old_event_does_not_end_a_cleared_task(cluster: Cluster, ti: Any) -> None:
    waits(asks(ti), lambda: cluster.succeeds(cluster.launched(1)))
    cleared = ti.cleared()  # while it was about to resume: the next try starts in resume, with the old event
    with pytest.raises(TaskDeferred):
        resumes(cleared)
    record = cluster.controller.state(f"nightly/{ti.run_id}/task")
    assert record is not None
    assert (record.submission, record.state) == (2, GangState.QUEUED)


def test_a_gang_that_somebody_stopped_says_how_to_go_on(cluster: Cluster, ti: Any) -> None:
    trigger = asks(ti)

    def meanwhile() -> None:
        key = cluster.launched(1)
        cluster.controller.release(trigger.gang_id, None, "an operator", "maintenance")
        cluster.stops(key)

    waits(trigger, meanwhile)
    with pytest.raises(GangInterrupted, match="Clear the task to resume it"):
        resumes(ti)


def test_a_killed_task_process_releases_its_gang_before_it_is_deferred(cluster: Cluster, ti: Any) -> None:
    operator = a_gang()
    operator.on_kill()  # nothing asked for yet
    request, claim = operator._request({"ti": ti})
    operator._asked_for = (request.gang_id, claim.owner)
    cluster.controller.submit(request, claim)
    operator.on_kill()
    cluster.controller.tick()
    record = cluster.controller.state(request.gang_id)
    assert record is not None
    assert record.state is GangState.INTERRUPTED


def test_a_gang_that_can_never_fit_is_refused_at_once(cluster: Cluster, ti: Any) -> None:
    with pytest.raises(AirflowFailException, match="3"):
        a_gang(workers=3).execute({"ti": ti})
    assert cluster.controller.list_gangs() == []


@pytest.mark.parametrize("workers", ["0", "two", -1])
def test_a_bad_number_of_workers_is_refused(cluster: Cluster, ti: Any, workers: Any) -> None:
    with pytest.raises(AirflowFailException, match="whole number of at least 1"):
        a_gang(workers=workers).execute({"ti": ti})


def test_equal_run_specs_have_equal_digests_and_others_have_not(ti: Any) -> None:
    def digest(**changes: Any) -> str:
        request: GangRequest = a_gang(**changes)._request({"ti": ti})[0]
        return request.run_spec_digest

    assert digest() == digest()
    assert len({digest(), digest(run_spec={"x": 2}), digest(command=("-m", "n"))}) == 3
