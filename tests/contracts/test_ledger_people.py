"""What every ledger does when people hold, requeue or cancel gangs, and what it learns and forgets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from gang_ledgers.ledger import Directive, GangHasEnded, Ledger, Progress, UnknownGang
from gang_scheduler.gang_state import GangState
from gang_scheduler.snapshot import GangView
from gang_scheduler.verdict import Cause
from tests.builders import a_claim, a_gang
from tests.ledger_steps import DONE, FAILED, KILLED, STOPPED, events, running, tick, until

GANG = a_gang()
NONE = timedelta()
WEEK = timedelta(days=7)


def state(ledger: Ledger, gang_id: str = GANG.gang_id) -> GangState:
    record = ledger.state(gang_id)
    assert record is not None
    return record.state


def view(ledger: Ledger, gang_id: str = GANG.gang_id) -> GangView:
    return next(view for view in ledger.snapshot().gangs if view.request.gang_id == gang_id)


# --- holding and queueing again


def test_held_gang_is_not_admitted_until_the_hold_is_lifted(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    record = ledger.hold(GANG.gang_id, "ada", "the data are being mended")
    assert (record.is_held, record.held_why) == (True, "the data are being mended (ada)")
    ledger.hold(GANG.gang_id, "ada", "the data are being mended")
    tick(ledger)
    assert (state(ledger), view(ledger).wait_reason) == (GangState.QUEUED, "held")
    assert view(ledger).held_why == "the data are being mended (ada)"
    assert not ledger.lift_hold(GANG.gang_id, "ada", "mended").is_held
    tick(ledger)
    assert state(ledger) is GangState.ADMITTED
    assert events(ledger) == ["submitted", "held", "waiting", "hold-lifted", "admitted"]
    assert ledger.history(GANG.gang_id)[1].details == {"who": "ada", "why": "the data are being mended"}


def test_held_gang_goes_on_running_and_is_not_admitted_again(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    ledger.hold(GANG.gang_id, "ada", "look at it first")
    assert ledger.renew(key, None) is Directive.GO_ON
    ledger.end_attempt(key, KILLED)
    until(lambda: bool(tick(ledger)) or view(ledger).wait_reason == "held", "its back-off is over")
    assert state(ledger) is GangState.RECOVERING


def test_requeued_gang_stops_with_a_checkpoint_and_goes_on_with_no_budget_charged(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    ledger.requeue(GANG.gang_id, "ada", "make room")
    assert ledger.renew(key, None) is Directive.STOP
    ledger.end_attempt(key, STOPPED)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.state, record.submission, record.infrastructure_ends) == (GangState.QUEUED, 1, 0)
    assert "requeue-asked" in events(ledger)
    assert running(ledger, GANG).attempt == 2


def test_requeue_of_a_grant_that_nobody_started_makes_it_void(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    ledger.requeue(GANG.gang_id, "ada", "elsewhere")
    tick(ledger)
    assert state(ledger) is GangState.QUEUED


def test_requeue_lifts_the_back_off_of_one_that_waits(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), KILLED)
    assert view(ledger).not_before is not None
    ledger.requeue(GANG.gang_id, "ada", "the node is well")
    assert view(ledger).not_before is None
    tick(ledger)
    assert state(ledger) is GangState.ADMITTED


@pytest.mark.parametrize("act", ["hold", "lift_hold", "requeue"])
def test_what_is_for_live_gangs_says_what_was_found_instead(ledger: Ledger, act: str) -> None:
    with pytest.raises(UnknownGang, match=r"no gang 'dag/run/never' was ever asked for; `phalanx gangs list`"):
        getattr(ledger, act)("dag/run/never", "ada", "a slip")
    ledger.end_attempt(running(ledger, GANG), FAILED)
    with pytest.raises(GangHasEnded, match=r"submission 1 failed at .* UTC\. To run it again, clear its task"):
        getattr(ledger, act)(GANG.gang_id, "ada", "too late")


# --- what the plan wants to know of the past


def test_duration_is_learned_from_runs_of_the_same_task_with_other_work(
    ledger: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    for number in range(3):
        ledger.submit(a_gang("dag/new/train"), a_claim())
        assert view(ledger, "dag/new/train").learned_duration is None, "fewer than three say nothing"
        ledger.release("dag/new/train", None, "test", "only looked")
        tick(ledger)
        ledger.end_attempt(running(ledger, a_gang(f"dag/run-{number}/train")), DONE)
    ledger.submit(a_gang("dag/new/train"), a_claim("again", 2))
    ledger.submit(a_gang("dag/new/evaluate"), a_claim())
    ran = sorted(ledger.submissions(f"dag/run-{number}/train")[0].clocks["running"] for number in range(3))  # type: ignore[index] # by its value
    for other in (ledger, open_ledger()):
        learned = view(other, "dag/new/train")
        assert learned.learned_duration == ran[1]
        assert learned.learned_error is not None
        assert 0 <= learned.learned_error <= (ran[2] - ran[0]) / ran[1]
        assert view(other, "dag/new/evaluate").learned_duration is None


def test_runs_of_equal_work_count_once(ledger: Ledger) -> None:
    for number in range(4):
        request = a_gang(f"dag/run-{number}/train", run_spec_digest="the same")
        ledger.submit(request, a_claim(may_reuse=False))
        ledger.end_attempt(running(ledger, request), DONE)
    ledger.submit(a_gang("dag/new/train"), a_claim())
    assert view(ledger, "dag/new/train").learned_duration is None


def test_time_of_the_last_saved_checkpoint_is_known(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    assert view(ledger).saved_at is None
    ledger.renew(key, Progress(step=20, claimed_attempt=1, last_committed_step=20))
    saved = view(ledger).saved_at
    assert saved is not None
    ledger.renew(key, Progress(step=25, claimed_attempt=1, last_committed_step=20))
    assert view(ledger).saved_at == saved, "only a newer one counts"
    ledger.renew(key, Progress(step=30, claimed_attempt=1, last_committed_step=30))
    again = view(ledger).saved_at
    assert again is not None
    assert again > saved


def test_usage_of_a_queue_grows_while_its_gangs_run_and_halves_with_time(ledger: Ledger) -> None:
    assert ledger.queue_usage(WEEK) == {}
    key = running(ledger, a_gang(cpus=0.5, gang_queue="night"))  # a half of the pool's CPUs
    first = ledger.queue_usage(WEEK)["night"]
    later = ledger.queue_usage(WEEK)["night"]
    assert 0 < first < later
    assert ledger.snapshot().queues[0].name == "night"
    ledger.end_attempt(key, DONE)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    held = sum((record.clocks[clock] for clock in record.clocks if clock in ("starting", "running")), NONE)
    charged = ledger.queue_usage(WEEK)["night"]
    assert charged == pytest.approx(0.5 * held.total_seconds(), abs=1e-3)
    assert ledger.queue_usage(WEEK)["night"] == pytest.approx(charged, rel=1e-3), "it is charged once"
    brief = timedelta(milliseconds=20)
    until(lambda: ledger.queue_usage(brief)["night"] < charged / 2, "a half-life passes")


# --- history


def test_every_decision_keeps_its_typed_reason(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    ledger.submit(a_gang("dag/other/train"), a_claim())
    ledger.requeue(GANG.gang_id, "ada", "make room")
    tick(ledger)
    details = {row.event: row.details for row in ledger.history()}
    assert details["admitted"] == {"pool": "local", "nodes": ["localhost"]}
    assert details["waiting"] == {"reason": "no capacity"}
    assert details["stop-asked"] == {"reason": "asked"}
    ledger.end_attempt(key, DONE)
    details = {row.event: row.details for row in ledger.history()}
    assert details["finished"] == {"state": "succeeded", "cause": Cause.DONE}


def test_prune_forgets_what_ended_long_ago_and_nothing_that_is_needed(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), FAILED)  # has saved step 50
    ledger.submit(GANG, a_claim("cleared", 2))
    tick(ledger)
    ledger.release(GANG.gang_id, None, "test", "not wanted")
    tick(ledger)  # submission 2 rests
    ledger.submit(a_gang(run_spec_digest="other"), a_claim("again", 3))
    tick(ledger)
    ledger.release(GANG.gang_id, None, "test", "not wanted")
    tick(ledger)
    done = a_gang("dag/done/train")
    ledger.end_attempt(running(ledger, done), DONE, {"model_dir": "/models/1"})
    live = running(ledger, a_gang("dag/live/train"))
    assert ledger.prune(WEEK) == 0
    assert ledger.prune(NONE) > 0
    assert ledger.prune(NONE) == 0
    assert [record.submission for record in ledger.submissions(GANG.gang_id)] == [1, 3], "1 has a checkpoint"
    assert {row.gang_id for row in ledger.history()} == {live.gang_id}
    twin = ledger.submit(a_gang("dag/twin/train", run_spec_digest=done.run_spec_digest), a_claim())
    assert twin.result == {"model_dir": "/models/1"}
    again = ledger.submit(GANG, a_claim("cleared again", 4))
    assert (again.submission, again.resume_from) == (4, "")
    ledger.end_attempt(live, DONE)
