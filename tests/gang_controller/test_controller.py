"""The controller end to end in one process: real plan, real ledger, a backend with state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gang_backends.backend import LaunchOrder
from gang_controller.controller import GangController
from gang_ledgers.history_check import overlaps
from gang_ledgers.ledger import GangRecord, How, RequestRefused
from gang_ledgers.sql import SqlLedger, Timing
from gang_scheduler.gang import AttemptKey, Budgets, ClockLimits
from gang_scheduler.gang_state import ENDED, GangState
from gang_scheduler.verdict import AttemptEnd, Cause
from pool_settings import Settings, SettingsInvalid, read_text
from tests.builders import HOST, a_claim, a_gang, a_node_record
from tests.fakes import FakeBackend, a_launch_error
from tests.ledger_steps import until

GANG = a_gang()
MS = timedelta(milliseconds=1)


@dataclass
class Stage:
    """A controller over a ledger and a fake host."""

    controller: GangController
    ledger: SqlLedger
    backend: FakeBackend

    def rounds(self, count: int = 4) -> None:
        """Tick and let the host live, a few times."""
        for _ in range(count):
            self.controller.tick()
            self.backend.live()

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Rounds until something is so."""

        def is_so_after_a_round() -> bool:
            self.rounds(1)
            return is_so()

        until(is_so_after_a_round, what)

    def record(self, gang_id: str = GANG.gang_id) -> GangRecord:
        record = self.controller.state(gang_id)
        assert record is not None
        return record

    def state(self, gang_id: str = GANG.gang_id) -> GangState:
        return self.record(gang_id).state

    def key(self, gang_id: str = GANG.gang_id) -> AttemptKey:
        record = self.record(gang_id)
        return AttemptKey(gang_id, record.submission, record.attempt)

    def run(self, gang_id: str = GANG.gang_id, **fields: Any) -> AttemptKey:
        """Submit the gang, unless it is known, and bring its next attempt to RUNNING."""
        if self.controller.state(gang_id) is None:
            self.controller.submit(a_gang(gang_id, **fields), a_claim())
        self.until(lambda: self.state(gang_id) is GangState.RUNNING, f"{gang_id} runs")
        return self.key(gang_id)

    def until_ended(self, gang_id: str = GANG.gang_id) -> GangState:
        self.until(lambda: self.state(gang_id) in ENDED, f"{gang_id} ends")
        return self.state(gang_id)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def stages(url: str, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Opens a controller as one process would; several share the ledger, and one host if they are given it."""
    opened: list[SqlLedger] = []

    def opens(backend: FakeBackend | None = None, **timing: object) -> Stage:
        ledger = SqlLedger(url, runs_dir=tmp_path / "runs", timing=Timing(**timing))  # type: ignore[arg-type] # any field
        opened.append(ledger)
        ledger.register_node(a_node_record())
        host = backend or FakeBackend(ledger)
        return Stage(GangController(ledger, {"local": host}, host_id=HOST), ledger, host)

    yield opens
    for ledger in opened:
        ledger.close()


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Iterator[Stage]:
    stage = stages()
    yield stage
    assert stage.backend.most_at_once <= 1
    assert overlaps(stage.controller.history()) == []


# --- asking


def test_gang_runs_and_its_result_is_kept(stage: Stage) -> None:
    answer = stage.controller.submit(GANG, a_claim())
    assert answer.how is How.NEW
    key = stage.run()
    stage.backend.finish(key, 0, result={"model_dir": "model"})
    assert stage.state() is GangState.SUCCEEDED
    assert stage.record().result == {"model_dir": "model"}
    assert [record.submission for record in stage.controller.gang(GANG.gang_id)] == [1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"workers": 48}, "worker group 'trainer' asks 48 CPUs", id="too large"),
        pytest.param({"gang_pool": "gpu"}, "known gang pools: 'local'", id="unknown pool"),
    ],
)
def test_gang_is_refused_with_a_reason_when_it_can_never_run(
    stage: Stage, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(RequestRefused, match=said):
        stage.controller.submit(a_gang(**fields), a_claim())  # type: ignore[arg-type] # parametrized
    assert stage.controller.list_gangs() == []


def test_live_gang_is_still_watched_when_the_pool_has_shrunk(stage: Stage) -> None:
    stage.run()
    stage.ledger.register_node(a_node_record(cpus=1))
    assert stage.controller.submit(GANG, a_claim("try-2")).how is How.ATTACHED


def test_tick_does_nothing_and_takes_no_lock_when_nothing_is_live(stage: Stage) -> None:
    with stage.ledger.tick_lock():
        assert not stage.controller.tick().had_lock
    stage.backend.finish(stage.run(), 0)
    assert stage.controller.tick().actions == ()


def test_two_gangs_run_one_after_the_other_when_only_one_fits(stage: Stage) -> None:
    first = stage.run("dag/a/train")
    stage.controller.submit(a_gang("dag/b/train"), a_claim())
    stage.rounds()
    assert stage.state("dag/b/train") is GangState.QUEUED
    assert "held by dag/a/train" in stage.record("dag/b/train").wait_sentence
    stage.backend.finish(first, 0)
    stage.backend.finish(stage.run("dag/b/train"), 0)
    assert stage.state("dag/b/train") is GangState.SUCCEEDED


# --- ends


@pytest.mark.parametrize(
    ("code", "state", "cause"),
    [
        (0, GangState.SUCCEEDED, Cause.DONE),
        (64, GangState.FAILED, Cause.BAD_SPEC),
        (65, GangState.FAILED, Cause.BAD_DATA),
        (70, GangState.FAILED, Cause.PROGRAM_ERROR),
    ],
)
def test_gang_is_over_at_once_when_its_ranks_end_so(stage: Stage, code: int, state: GangState, cause: Cause) -> None:
    stage.backend.finish(stage.run(), code)
    record = stage.record()
    assert record.verdict is not None
    assert (record.state, record.verdict.cause) == (state, cause)


def test_gang_goes_on_with_the_next_attempt_when_a_rank_is_killed(stage: Stage) -> None:
    stage.backend.finish(stage.run(), -9)
    assert stage.state() is GangState.RECOVERING
    key = stage.run()
    assert key.attempt == 2
    stage.backend.finish(key, 0)
    assert (stage.state(), stage.record().infrastructure_ends) == (GangState.SUCCEEDED, 1)


def test_gang_goes_on_at_once_when_somebody_else_stopped_it(stage: Stage) -> None:
    stage.backend.finish(stage.run(), 75)
    verdict = stage.record().verdict
    assert verdict is not None
    assert verdict.cause is Cause.STOPPED_BY_OTHERS
    assert stage.run().attempt == 2


def test_gang_fails_when_its_infrastructure_budget_is_spent(stage: Stage) -> None:
    stage.backend.finish(stage.run(budgets=Budgets(infrastructure=0)), -9)
    record = stage.record()
    assert record.verdict is not None
    assert record.state is GangState.FAILED
    assert "infrastructure end 1, and 0 are borne" in record.verdict.sentence


def test_attempt_ends_and_is_tried_again_when_its_launch_fails(stage: Stage) -> None:
    stage.backend.launch_fails.append(a_launch_error())
    key = stage.run()
    assert key.attempt == 2
    sentences = [row.sentence for row in stage.controller.history(GANG.gang_id) if row.event == "ended"]
    assert sentences == ["launch failed: no space left for the run folder"]


def test_launch_is_tried_again_as_the_same_attempt_when_it_breaks_unexpectedly(stages: Callable[..., Stage]) -> None:
    stage = stages(claim_for={"launch": 50 * MS, "stop": 50 * MS, "probe": 50 * MS})
    stage.backend.launch_fails.append(OSError("a hiccup"))
    assert stage.run().attempt == 1


# --- leases


def test_gang_goes_on_when_its_supervisor_was_killed_and_that_is_proven(stages: Callable[..., Stage]) -> None:
    stage = stages(lease=200 * MS, claim_for={"launch": 5000 * MS, "stop": 50 * MS, "probe": 50 * MS})
    first = stage.run()
    stage.backend.kill_supervisor(first)
    stage.until(lambda: stage.key().attempt == 2, "the next attempt is admitted")
    row = next(row for row in stage.controller.history(GANG.gang_id) if row.event == "ended")
    assert row.sentence == "supervisor lost: its supervisor's pid is gone"
    assert overlaps(stage.controller.history()) == []


def test_slots_stay_held_as_long_as_death_is_not_proven(stages: Callable[..., Stage]) -> None:
    stage = stages(lease=100 * MS, claim_for={"launch": 5000 * MS, "stop": 50 * MS, "probe": 20 * MS})
    key = stage.run()
    stage.controller.submit(a_gang("dag/next/train"), a_claim())
    stage.backend.is_reachable = False
    probes = 0

    def probed_often() -> bool:  # the supervisor is silent: no backend.live() here
        nonlocal probes
        probes += stage.controller.tick().carried_out
        return probes >= 3

    until(probed_often, "the attempt was asked after three times")
    assert stage.state() is GangState.UNKNOWN
    assert stage.state("dag/next/train") is GangState.QUEUED
    stage.backend.live()
    assert (stage.state(), stage.key()) == (GangState.RUNNING, key)


def test_late_supervisor_may_not_run_when_its_attempt_was_given_up(stages: Callable[..., Stage]) -> None:
    """A superseded start: the launch took so long that the grant lapsed, and the next attempt runs already."""
    stage = stages()
    stage.controller.submit(a_gang(limits=ClockLimits(starting=None)), a_claim())
    stage.controller.tick()
    slow = stage.backend.attempts.pop(stage.key())
    stage.ledger.end_attempt(stage.key(), AttemptEnd(None, forced_cause=Cause.LAPSED))
    second = stage.run()
    stage.backend.attempts[slow.order.key] = slow
    stage.rounds()
    assert slow.is_over
    assert not slow.is_confirmed
    assert stage.backend.running() == [second]


# --- clears and releases, in every order


def test_cleared_gang_stops_and_goes_on_when_its_task_asks_again(stage: Stage) -> None:
    first = stage.run()
    assert stage.controller.submit(GANG, a_claim("try-2", 2)).how is How.RESUMED
    assert not stage.controller.release(GANG.gang_id, "try-1", "airflow", "cleared: the old trigger, late")
    stage.until(lambda: stage.key().attempt == 2, "the next attempt is admitted")
    assert stage.run().submission == first.submission
    assert stage.record().infrastructure_ends == 0


def test_released_gang_stops_and_rests(stage: Stage) -> None:
    stage.run()
    assert stage.controller.release(GANG.gang_id, "try-1", "airflow", "marked failed")
    assert stage.until_ended() is GangState.INTERRUPTED
    assert stage.backend.running() == []


def test_released_gang_is_over_at_once_when_nothing_of_it_runs(stage: Stage) -> None:
    stage.controller.submit(GANG, a_claim())
    assert stage.controller.release(GANG.gang_id, "try-1", "airflow", "marked failed")
    assert stage.state() is GangState.INTERRUPTED


def test_release_before_the_confirmation_leaves_nothing_running(stage: Stage) -> None:
    stage.controller.submit(GANG, a_claim())
    stage.controller.tick()  # launched, not confirmed
    stage.controller.release(GANG.gang_id, None, "operator", "cancelled")
    stage.rounds()
    assert stage.state() is GangState.INTERRUPTED
    assert stage.backend.running() == []


def test_gang_goes_on_when_it_is_asked_for_between_release_and_end(stage: Stage) -> None:
    stage.run()
    stage.controller.release(GANG.gang_id, "try-1", "airflow", "cleared")
    stage.controller.submit(GANG, a_claim("try-2", 2))
    stage.until(lambda: stage.key().attempt == 2, "the next attempt is admitted")
    stage.backend.finish(stage.run(), 0)
    assert stage.state() is GangState.SUCCEEDED


def test_new_submission_runs_after_the_old_one_has_stopped_when_the_digest_changed(stage: Stage) -> None:
    stage.run()
    answer = stage.controller.submit(a_gang(run_spec_digest="other"), a_claim("try-2"))
    assert answer.submission == 2
    assert stage.run() == AttemptKey(GANG.gang_id, 2, 1)
    assert [record.state for record in stage.controller.gang(GANG.gang_id)] == [
        GangState.INTERRUPTED,
        GangState.RUNNING,
    ]


# --- crashes of those who tick


def test_launch_is_carried_out_by_another_when_its_claimer_died(stages: Callable[..., Stage]) -> None:
    dead = stages(claim_for={"launch": 50 * MS, "stop": 50 * MS, "probe": 50 * MS})
    dead.controller.submit(GANG, a_claim())
    dead.controller._plan_and_commit()
    assert len(dead.ledger.claim_outbox(HOST)) == 1  # and then it dies
    assert dead.backend.attempts == {}
    other = stages(dead.backend)
    assert other.run().attempt == 1


def test_gang_is_launched_once_when_the_claimer_died_after_the_launch(stages: Callable[..., Stage]) -> None:
    stage = stages(claim_for={"launch": 50 * MS, "stop": 50 * MS, "probe": 50 * MS})
    stage.controller.submit(GANG, a_claim())
    stage.controller._plan_and_commit()
    (item,) = stage.ledger.claim_outbox(HOST)
    stage.backend.launch(LaunchOrder(item.key, item.request, item.placement, item.run_dir), {})  # and then it dies
    assert stage.run() == item.key
    stage.until(lambda: "launched" in [row.event for row in stage.controller.history()], "launched is noted")
    assert list(stage.backend.attempts) == [item.key]


def test_gangs_run_once_when_two_controllers_tick_in_turns(stages: Callable[..., Stage]) -> None:
    one = stages()
    two = stages(one.backend)
    names = [f"dag/run-{number}/train" for number in range(4)]
    for number, name in enumerate(names):
        (one, two)[number % 2].controller.submit(a_gang(name), a_claim())

    def all_ended() -> bool:
        one.controller.tick()
        for key in one.backend.live():
            if one.backend.attempts[key].step >= 20:
                one.backend.finish(key, 0)
        two.controller.tick()
        return all(record.state in ENDED for record in two.controller.states(names).values())

    until(all_ended, "all gangs end")
    assert {record.state for record in one.controller.states(names).values()} == {GangState.SUCCEEDED}
    assert len(one.backend.attempts) == len(names)
    assert overlaps(one.controller.history()) == []


# --- this host


def test_host_goes_down_with_checkpoints_and_comes_up_again(stage: Stage) -> None:
    key = stage.run()
    stage.controller.submit(a_gang("dag/queued/train"), a_claim())
    stage.backend.attempts[key].is_asked_to_stop = True  # the supervisor hears of it at once
    asked = stage.ledger.close_host(HOST, "the host is going down")
    assert asked == [key]
    stage.rounds()
    done = stage.controller.interrupt_host(grace_s=0)
    assert done.is_complete
    assert stage.backend.running() == []
    assert {stage.state(), stage.state("dag/queued/train")} == {GangState.QUEUED}
    stage.controller.open_host()
    assert stage.run().attempt == 2
    assert stage.record().infrastructure_ends == 0


def test_host_says_what_still_runs_when_the_grace_is_over(stage: Stage) -> None:
    key = stage.run()
    done = stage.controller.interrupt_host(grace_s=0)
    assert (done.asked, done.still_running, done.is_complete) == ((key,), (key,), False)
    assert stage.state() is GangState.STOPPING
    stage.controller.open_host()
    stage.until(lambda: stage.key().attempt == 2, "it stops, and goes on")


# --- settings


SETTINGS = """
[queue.default]
dag_ids = ["dag"]

[queue.night]

[priority]
high = 100

[[access.rules]]
dags = ["dag"]
max_priority = "high"
"""


@pytest.fixture
def settled(stages: Callable[..., Stage]) -> Stage:
    """A stage whose controller goes by settings."""
    stage = stages()
    settings = read_text(SETTINGS)
    controller = GangController(stage.ledger, {"local": stage.backend}, host_id=HOST, settings=lambda: settings)
    return Stage(controller, stage.ledger, stage.backend)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gang_queue": "other"}, "known gang queues: 'default', 'night'"),
        ({"gang_id": "etl/a/b"}, "DAG 'etl' asks gang queue 'default', which takes DAGs 'dag' only"),
        ({"gang_priority": 101}, r"may ask at most 100 \(pools.toml:10 \[\[access.rules\]\] 1\)"),
    ],
    ids=["queue", "DAG of the queue", "priority"],
)
def test_gang_is_refused_when_the_settings_do_not_allow_it(settled: Stage, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestRefused, match=said):
        settled.controller.submit(a_gang(**fields), a_claim())
    assert settled.controller.list_gangs() == []


def test_gang_that_lives_is_watched_on_when_its_queue_is_gone(stages: Callable[..., Stage]) -> None:
    stage = stages()
    stage.run()
    later = read_text("[queue.other]")
    controller = GangController(stage.ledger, {"local": stage.backend}, host_id=HOST, settings=lambda: later)
    assert controller.submit(GANG, a_claim("try-2")).how is How.ATTACHED


def test_tick_plans_by_the_settings(stages: Callable[..., Stage]) -> None:
    stage = stages()
    one_at_a_time = read_text("[queue.default]\nmax_gangs = 1\n")
    controller = GangController(stage.ledger, {"local": stage.backend}, host_id=HOST, settings=lambda: one_at_a_time)
    for gang_id in ("dag/a/train", "dag/b/train"):
        controller.submit(a_gang(gang_id, workers=1), a_claim())
    controller.tick()
    states = [record.state for record in controller.list_gangs(live_only=True)]
    assert sorted(states) == [GangState.ADMITTED, GangState.QUEUED], "both would fit; the queue may hold one"


def test_priority_class_is_a_number_or_refused(settled: Stage) -> None:
    assert (settled.controller.priority("high"), settled.controller.priority(3)) == (100, 3)
    with pytest.raises(RequestRefused, match="priority classes: 'high'"):
        settled.controller.priority("urgent")


def test_nobody_is_admitted_and_what_runs_ends_when_the_settings_are_invalid(
    stages: Callable[..., Stage], caplog: pytest.LogCaptureFixture
) -> None:
    stage = stages()
    key = stage.run()
    stage.controller.submit(a_gang("dag/queued/train"), a_claim())

    def invalid() -> Settings:
        return read_text("order =")

    spoilt = Stage(
        GangController(stage.ledger, {"local": stage.backend}, host_id=HOST, settings=invalid),
        stage.ledger,
        stage.backend,
    )
    with pytest.raises(SettingsInvalid):
        spoilt.controller.submit(a_gang("dag/other/train"), a_claim())
    stage.backend.finish(key, 0)
    spoilt.rounds()
    assert (spoilt.state(), spoilt.state("dag/queued/train")) == (GangState.SUCCEEDED, GangState.QUEUED)
    assert spoilt.controller.release("dag/queued/train", None, "operator", "cancelled")
    assert spoilt.state("dag/queued/train") is GangState.INTERRUPTED
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert "no gang is admitted until the settings are put right:\npools.toml: is no TOML" in told[0]
