"""What every ledger does (docs/contracts.md, "Ledger")."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta

import pytest

from gang_ledgers.ledger import Directive, HostTaken, How, Ledger, OutboxItem, Progress, StaleSnapshot
from gang_scheduler.actions import Admit, MarkUnknown
from gang_scheduler.gang import Budgets, ClockLimits
from gang_scheduler.gang_state import Clock, GangState
from gang_scheduler.plan import plan
from gang_scheduler.verdict import AttemptEnd, Cause, RankOutcome
from tests.builders import HOST, a_claim, a_gang, a_key, a_node_record
from tests.ledger_steps import DONE, FAILED, KILLED, STOPPED, events, launch, ref, running, tick, until

GANG = a_gang()
MS = timedelta(milliseconds=1)


def state(ledger: Ledger, gang_id: str = GANG.gang_id) -> GangState:
    record = ledger.state(gang_id)
    assert record is not None
    return record.state


def claimed_again(ledger: Ledger) -> OutboxItem:
    """The next item that can be claimed."""
    found: list[OutboxItem] = []

    def is_found() -> bool:
        found.extend(ledger.claim_outbox(HOST))
        return bool(found)

    until(is_found, "a claim expires")
    return found[0]


# --- submitting


def test_first_request_is_a_new_submission_with_a_run_folder_of_its_own(ledger: Ledger) -> None:
    first = ledger.submit(GANG, a_claim())
    second = ledger.submit(a_gang("dag/run=train/x"), a_claim())
    assert (first.how, first.submission, first.state) == (How.NEW, 1, GangState.QUEUED)
    assert first.run_dir.endswith("/runs/dag=2Frun=2Ftrain/submission-1")
    assert second.run_dir.endswith("/runs/dag=2Frun=3Dtrain=2Fx/submission-1")


def test_asking_twice_is_asking_once(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim("try-1"))
    again = ledger.submit(GANG, a_claim("try-2"))
    assert (again.how, again.submission) == (How.ATTACHED, 1)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert record.owner == "try-2"
    assert len(ledger.submissions(GANG.gang_id)) == 1


def test_request_comes_back_whole(ledger: Ledger) -> None:
    request = a_gang(
        labels={"asked_by": "airflow"}, limits=ClockLimits(queued=timedelta(hours=2)), budgets=Budgets(3, 1)
    )
    ledger.submit(request, a_claim())
    record = ledger.state(request.gang_id)
    assert record is not None
    assert record.request == request
    assert ledger.snapshot().gangs[0].request == request


def test_cleared_gang_stops_with_a_checkpoint_and_goes_on_as_the_same_submission(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    answer = ledger.submit(GANG, a_claim("cleared", 2))
    assert (answer.how, answer.submission) == (How.RESUMED, 1)
    assert ledger.renew(key, None) is Directive.STOP
    ledger.end_attempt(key, STOPPED)
    assert state(ledger) is GangState.QUEUED
    assert running(ledger, GANG).attempt == 2
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.submission, record.infrastructure_ends, record.user_ends) == (1, 0, 0)


def test_release_after_a_clear_is_ignored_when_it_comes_from_the_old_owner(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    ledger.submit(GANG, a_claim("try-2", 2))
    assert not ledger.release(GANG.gang_id, "try-1", "airflow", "cleared")
    ledger.end_attempt(key, STOPPED)
    assert state(ledger) is GangState.QUEUED


def test_release_before_the_next_execute_is_undone_by_it(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    assert ledger.release(GANG.gang_id, "try-1", "airflow", "cleared")
    answer = ledger.submit(GANG, a_claim("try-2", 2))
    assert answer.how is How.RESUMED
    ledger.end_attempt(key, STOPPED)
    assert state(ledger) is GangState.QUEUED


def test_released_gang_rests_and_resumes_when_asked_for_again(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    assert ledger.release(GANG.gang_id, "try-1", "airflow", "marked failed")
    assert ledger.renew(key, None) is Directive.STOP
    ledger.end_attempt(key, STOPPED)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert record.state is GangState.INTERRUPTED
    assert record.verdict is not None
    assert "marked failed (airflow)" in ledger.history(GANG.gang_id)[-1].sentence
    answer = ledger.submit(GANG, a_claim("try-2", 2))
    assert (answer.how, answer.submission, answer.state) == (How.RESUMED, 1, GangState.QUEUED)
    assert "step 60" in answer.sentence
    assert running(ledger, GANG).attempt == 2


@pytest.mark.parametrize(("owner", "is_released"), [("try-1", True), (None, True), ("somebody", False)])
def test_release_is_for_the_owner_or_an_operator(ledger: Ledger, owner: str | None, is_released: bool) -> None:
    ledger.submit(GANG, a_claim("try-1"))
    assert ledger.release(GANG.gang_id, owner, "test", "because") is is_released
    tick(ledger)
    assert state(ledger) is (GangState.INTERRUPTED if is_released else GangState.ADMITTED)


def test_release_of_what_has_ended_or_never_was_changes_nothing(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), DONE)
    assert not ledger.release(GANG.gang_id, "try-1", "airflow", "late")
    assert not ledger.release("dag/run/never", None, "airflow", "late")
    assert state(ledger) is GangState.SUCCEEDED


def test_failed_gang_resumes_the_old_checkpoints_in_a_new_submission_when_cleared(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), FAILED)
    assert state(ledger) is GangState.FAILED
    assert ledger.submit(GANG, a_claim("retry")).how is How.ATTACHED
    answer = ledger.submit(GANG, a_claim("cleared", 2))
    assert (answer.how, answer.submission) == (How.RESUBMITTED, 2)
    assert answer.resume_from.endswith("/submission-1")
    ledger.end_attempt(running(ledger, GANG), AttemptEnd(64))
    third = ledger.submit(GANG, a_claim("cleared again", 3))
    assert third.resume_from.endswith("/submission-1"), "submission 2 committed nothing"


def test_other_digest_stops_the_old_submission_before_the_new_one_starts(ledger: Ledger) -> None:
    old = running(ledger, GANG)
    answer = ledger.submit(a_gang(run_spec_digest="other"), a_claim("try-2"))
    assert (answer.how, answer.submission, answer.resume_from) == (How.RESUBMITTED, 2, "")
    tick(ledger)
    assert state(ledger) is GangState.QUEUED
    assert ledger.renew(old, None) is Directive.STOP
    ledger.end_attempt(old, STOPPED)
    tick(ledger)
    assert [record.state for record in ledger.submissions(GANG.gang_id)] == [GangState.INTERRUPTED, GangState.ADMITTED]


def test_equal_work_is_taken_over_from_any_gang_without_a_launch(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), DONE, {"model_dir": "/models/1"})
    twin = a_gang("dag/other/train", run_spec_digest=GANG.run_spec_digest)
    answer = ledger.submit(twin, a_claim())
    assert (answer.how, answer.state, answer.result) == (
        How.ALREADY_DONE,
        GangState.SUCCEEDED,
        {"model_dir": "/models/1"},
    )
    assert "'dag/run/train' submission 1" in answer.sentence
    assert tick(ledger) == ()
    assert ledger.claim_outbox(HOST) == []
    third = ledger.submit(a_gang("dag/third/train", run_spec_digest=GANG.run_spec_digest), a_claim())
    assert "'dag/run/train' submission 1" in third.sentence, "the one that did the work is named"


def test_success_stays_when_airflow_only_retries(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), DONE, {"model_dir": "/models/1"})
    answer = ledger.submit(GANG, a_claim("try-2"))
    assert (answer.how, answer.result) == (How.ATTACHED, {"model_dir": "/models/1"})
    assert tick(ledger) == ()


def test_success_is_trained_again_from_scratch_when_its_task_alone_is_cleared(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim(asked_with="up-1"))
    ledger.end_attempt(running(ledger, GANG), DONE)
    answer = ledger.submit(GANG, a_claim("try-2", 2, asked_with="up-1"))
    assert (answer.how, answer.submission, answer.resume_from) == (How.RESUBMITTED, 2, "")


def test_success_is_taken_over_when_the_whole_run_is_cleared(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim(asked_with="up-1"))
    ledger.end_attempt(running(ledger, GANG), DONE, {"model_dir": "/models/1"})
    answer = ledger.submit(GANG, a_claim("try-2", 2, asked_with="up-2"))
    assert (answer.how, answer.submission, answer.result) == (How.ALREADY_DONE, 2, {"model_dir": "/models/1"})


# --- planning and committing


def test_commit_is_refused_whole_when_anything_has_changed_since_the_snapshot(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    stale = ledger.snapshot()
    ledger.submit(a_gang("dag/other/train"), a_claim())
    before = (ledger.list_gangs(), ledger.history(), ledger.snapshot().version)
    with pytest.raises(StaleSnapshot, match=f"version {stale.version}"):
        ledger.commit(plan(stale), stale.version)
    assert (ledger.list_gangs(), ledger.history(), ledger.snapshot().version) == before


def test_same_plan_is_committed_once_when_two_planned_it(ledger: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    other = open_ledger()
    ledger.submit(GANG, a_claim())
    mine, theirs = ledger.snapshot(), other.snapshot()
    assert plan(mine) == plan(theirs)
    ledger.commit(plan(mine), mine.version)
    with pytest.raises(StaleSnapshot):
        other.commit(plan(theirs), theirs.version)
    assert events(ledger) == ["submitted", "admitted"]


def test_wait_is_kept_with_its_reason_and_told_once(ledger: Ledger) -> None:
    running(ledger, GANG)
    ledger.submit(a_gang("dag/other/train"), a_claim())
    assert len(tick(ledger)) == 1
    assert tick(ledger) == ()
    record = ledger.state("dag/other/train")
    assert record is not None
    assert record.wait_reason == "no capacity"
    assert record.wait_sentence.endswith("held by dag/run/train (2 CPUs, running)")
    assert events(ledger, "dag/other/train") == ["submitted", "waiting"]


def test_work_is_seen_when_there_is_some(ledger: Ledger) -> None:
    assert not ledger.has_work()
    ledger.submit(GANG, a_claim())
    assert ledger.has_work()
    ledger.end_attempt(running(ledger, GANG), DONE)
    assert not ledger.has_work()


def test_tick_lock_is_held_by_one_at_a_time(ledger: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    other = open_ledger()
    with ledger.tick_lock() as mine, other.tick_lock() as theirs, ledger.tick_lock() as mine_again:
        assert (mine, theirs, mine_again) == (True, False, False)
    with other.tick_lock() as theirs:
        assert theirs


def test_tick_lock_is_let_go_when_its_holder_fails(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.tick_lock():
        raise ZeroDivisionError
    with ledger.tick_lock() as is_taken:
        assert is_taken


# --- the outbox


def test_act_is_claimed_by_one_and_only_on_its_host(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    assert ledger.claim_outbox("another host") == []
    (item,) = ledger.claim_outbox(HOST)
    assert (item.kind, item.key, item.pool, item.request) == ("launch", a_key(), "local", GANG)
    assert ledger.claim_outbox(HOST) == []
    ledger.finish_outbox(item.number, backend_ref="ref")
    ledger.finish_outbox(item.number, backend_ref="ref")
    assert events(ledger) == ["submitted", "admitted", "launched"]


def test_act_comes_again_when_its_claim_expires(open_ledger: Callable[..., Ledger]) -> None:
    ledger = open_ledger(claim_for={"launch": 50 * MS})
    ledger.register_node(a_node_record())
    ledger.submit(GANG, a_claim())
    tick(ledger)
    (first,) = ledger.claim_outbox(HOST)
    assert claimed_again(ledger) == first


def test_act_is_taken_back_when_its_attempt_ends_first(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    ledger.release(GANG.gang_id, None, "test", "not wanted")
    tick(ledger)
    assert state(ledger) is GangState.INTERRUPTED
    assert ledger.claim_outbox(HOST) == []


# --- the supervisor


def test_attempt_starts_once_and_says_yes_again_to_the_same_supervisor_only(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    assert ledger.start(a_key(), "ref-1")
    assert ledger.start(a_key(), "ref-1")
    assert not ledger.start(a_key(), "ref-2")
    assert events(ledger) == ["submitted", "admitted", "started"]


@pytest.mark.parametrize("key", [a_key("dag/run/never"), a_key(submission=2), a_key(attempt=2), a_key(attempt=0)])
def test_attempt_may_not_start_when_it_is_not_the_current_one(ledger: Ledger, key: object) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    assert not ledger.start(key, "ref")  # type: ignore[arg-type] # parametrized
    assert ledger.renew(key, None) is Directive.SUPERSEDED  # type: ignore[arg-type]


def test_attempt_may_not_start_when_a_stop_was_asked_for(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    ledger.release(GANG.gang_id, None, "test", "not wanted")
    assert not ledger.start(a_key(), "ref")


def test_attempt_may_not_start_when_its_grant_has_lapsed(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    snapshot = ledger.snapshot()
    (admit,) = plan(snapshot)
    assert isinstance(admit, Admit)
    ledger.commit([Admit(admit.key, admit.placement, timedelta(0), "at once")], snapshot.version)
    tick(ledger)  # lapses
    assert not ledger.start(a_key(), "ref")
    assert ledger.claim_outbox(HOST) == []
    tick(ledger)  # is queued again, and backs off
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.state, record.infrastructure_ends) == (GangState.RECOVERING, 1)
    assert events(ledger) == ["submitted", "admitted", "lapsed", "requeued"]


def test_progress_is_kept_and_the_gang_runs_when_rank_0_has_claimed(ledger: Ledger) -> None:
    ledger.submit(GANG, a_claim())
    tick(ledger)
    launch(ledger)
    assert ledger.start(a_key(), ref(a_key()))
    assert ledger.renew(a_key(), None) is Directive.GO_ON
    assert state(ledger) is GangState.STARTING
    progress = Progress(step=3, total_steps=100, loss=0.5, claimed_attempt=1, phase="training")
    assert ledger.renew(a_key(), progress) is Directive.GO_ON
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.state, record.progress) == (GangState.RUNNING, progress)
    change = record.change
    ledger.renew(a_key(), Progress(step=4, claimed_attempt=1))
    again = ledger.state(GANG.gang_id)
    assert again is not None
    assert again.change > change
    assert events(ledger)[-1] == "claimed"


def test_end_frees_the_slots_and_is_decided_at_once(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    ledger.submit(a_gang("dag/next/train"), a_claim())
    ledger.end_attempt(key, KILLED)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.state, record.infrastructure_ends, record.attempt) == (GangState.RECOVERING, 1, 1)
    assert record.verdict is not None
    assert record.verdict.sentence.startswith("rank 1 was killed by SIGKILL at step 57")
    tick(ledger)
    assert state(ledger, "dag/next/train") is GangState.ADMITTED


def test_end_is_recorded_once_when_it_is_told_twice(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    for _ in range(2):
        ledger.end_attempt(key, KILLED)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert record.infrastructure_ends == 1
    assert events(ledger).count("ended") == 1


def test_end_is_recorded_whatever_a_program_has_said(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    ledger.renew(key, Progress(step=1, loss=math.nan, eta_s=math.inf))
    assert ledger.state(GANG.gang_id) is not None
    words = RankOutcome(0, 70, "Bad\0Type", "half a pair: \ud800", "NUL \0 and \udfff")
    ledger.end_attempt(key, AttemptEnd(1, (words,), proof="\0", log_tail="\0\ud800"), {"loss": math.nan})
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert record.verdict is not None
    assert "(Bad?Type: half a pair: ?)" in record.verdict.sentence


def test_late_words_of_an_old_attempt_change_nothing(open_ledger: Callable[..., Ledger]) -> None:
    ledger = open_ledger()
    ledger.register_node(a_node_record())
    old = running(ledger, GANG)
    ledger.submit(GANG, a_claim("cleared", 2))
    ledger.end_attempt(old, STOPPED)
    new = running(ledger, GANG)
    ledger.end_attempt(old, FAILED)
    assert ledger.renew(old, Progress(step=999)) is Directive.SUPERSEDED
    assert not ledger.start(old, ref(old))
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.state, record.attempt, record.user_ends) == (GangState.RUNNING, new.attempt, 0)


@pytest.mark.parametrize(
    ("ends", "final"),
    [
        pytest.param([DONE], GangState.SUCCEEDED, id="done"),
        pytest.param([FAILED], GangState.FAILED, id="program error, no retries"),
        pytest.param([STOPPED, DONE], GangState.SUCCEEDED, id="a stop that nobody asked to last"),
    ],
)
def test_submission_ends_so(ledger: Ledger, ends: list[AttemptEnd], final: GangState) -> None:
    for end in ends:
        ledger.end_attempt(running(ledger, GANG), end)
    assert state(ledger) is final


def test_user_retries_are_counted_apart_from_infrastructure(ledger: Ledger) -> None:
    request = a_gang(budgets=Budgets(infrastructure=0, user=1))
    ledger.end_attempt(running(ledger, request), FAILED)
    assert state(ledger) is GangState.RECOVERING
    ledger.end_attempt(running(ledger, request), FAILED)
    record = ledger.state(request.gang_id)
    assert record is not None
    assert (record.state, record.user_ends, record.infrastructure_ends) == (GangState.FAILED, 2, 0)


def test_gang_fails_by_a_reached_limit_after_its_attempt_has_saved(ledger: Ledger) -> None:
    request = a_gang(limits=ClockLimits(running=timedelta(0)))
    key = running(ledger, request)
    tick(ledger)
    assert state(ledger) is GangState.STOPPING
    assert [item.kind for item in ledger.claim_outbox(HOST)] == ["stop"]
    assert ledger.renew(key, None) is Directive.STOP
    ledger.end_attempt(key, STOPPED)
    record = ledger.state(request.gang_id)
    assert record is not None
    assert record.verdict is not None
    assert (record.state, record.verdict.cause) == (GangState.FAILED, Cause.LIMIT_REACHED)
    assert "run_limit" in record.verdict.sentence


# --- leases


def test_expired_lease_makes_a_gang_unknown_and_keeps_its_slots(open_ledger: Callable[..., Ledger]) -> None:
    ledger = open_ledger(lease=50 * MS, claim_for={"probe": 50 * MS, "launch": 9999 * MS})
    ledger.register_node(a_node_record())
    key = running(ledger, GANG)
    ledger.submit(a_gang("dag/other/train"), a_claim())
    until(lambda: bool(tick(ledger)) and state(ledger) is GangState.UNKNOWN, "the lease expires")
    tick(ledger)
    assert state(ledger, "dag/other/train") is GangState.QUEUED
    (probe,) = ledger.claim_outbox(HOST)
    assert (probe.kind, probe.backend_ref) == ("probe", ref(key))
    assert claimed_again(ledger) == probe


def test_unknown_gang_is_well_again_when_its_supervisor_renews(open_ledger: Callable[..., Ledger]) -> None:
    ledger = open_ledger(lease=50 * MS)
    ledger.register_node(a_node_record())
    key = running(ledger, GANG)
    until(lambda: bool(tick(ledger)), "the lease expires")
    assert state(ledger) is GangState.UNKNOWN
    assert ledger.renew(key, None) is Directive.GO_ON
    assert state(ledger) is GangState.RUNNING
    assert ledger.claim_outbox(HOST) == []
    assert events(ledger)[-2:] == ["lease-expired", "renewed"]


def test_renewal_wins_when_it_comes_between_snapshot_and_commit(open_ledger: Callable[..., Ledger]) -> None:
    ledger, supervisors = open_ledger(lease=50 * MS), open_ledger(lease=timedelta(minutes=1))
    ledger.register_node(a_node_record())
    key = running(ledger, GANG)
    until(lambda: any(isinstance(act, MarkUnknown) for act in plan(ledger.snapshot())), "the lease expires")
    snapshot = ledger.snapshot()
    supervisors.renew(key, None)
    ledger.commit(plan(snapshot), snapshot.version)
    assert state(ledger) is GangState.RUNNING


def test_leases_and_clocks_move_on_when_nobody_was_heard_of_for_a_while(open_ledger: Callable[..., Ledger]) -> None:
    """A test's outage is anything over 0.1 s; contact is noted once a second at most."""
    ledger = open_ledger(lease=timedelta(seconds=2), outage_after=100 * MS)
    ledger.register_node(a_node_record())
    running(ledger, a_gang(limits=ClockLimits(running=timedelta(seconds=1))))
    before = ledger.state(GANG.gang_id)
    assert before is not None
    assert before.lease_expires_at is not None
    lease = before.lease_expires_at

    def is_extended() -> bool:
        ledger.snapshot()
        now = ledger.state(GANG.gang_id)
        assert now is not None
        assert now.lease_expires_at is not None
        return now.lease_expires_at > lease

    until(is_extended, "the lease is extended by the gap")
    assert tick(ledger) == (), "the second that passed unheard does not count for the run limit"
    assert state(ledger) is GangState.RUNNING


# --- hosts


def test_closed_host_stops_its_gangs_without_releasing_them(ledger: Ledger) -> None:
    key = running(ledger, GANG)
    assert ledger.close_host("another host", "down") == []
    assert ledger.close_host(HOST, "the host is going down") == [key]
    assert ledger.renew(key, None) is Directive.STOP
    ledger.end_attempt(key, STOPPED)
    tick(ledger)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert (record.state, record.infrastructure_ends, record.wait_reason) == (GangState.QUEUED, 0, "no nodes")
    ledger.register_node(a_node_record())
    tick(ledger)
    assert state(ledger) is GangState.QUEUED, "registering again does not lift a cordon"
    ledger.open_host(HOST)
    tick(ledger)
    assert state(ledger) is GangState.ADMITTED


def test_node_takes_a_new_size_and_another_host_only_when_it_is_empty(ledger: Ledger) -> None:
    ledger.register_node(a_node_record(cpus=4))
    assert [node.capacity.cpus for node in ledger.nodes()] == [4]
    running(ledger, GANG)
    with pytest.raises(HostTaken, match="still holds dag/run/train submission 1 attempt 1"):
        ledger.register_node(a_node_record(host_id="host-2"))
    ledger.end_attempt(a_key(), DONE)
    ledger.register_node(a_node_record(host_id="host-2"))


# --- clocks and lists


def test_four_clocks_add_up_over_attempts(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), STOPPED)
    ledger.end_attempt(running(ledger, GANG), DONE)
    record = ledger.state(GANG.gang_id)
    assert record is not None
    assert record.ended_at is not None
    spent = sum(record.clocks.values(), timedelta())
    assert abs(spent - (record.ended_at - record.submitted_at)) < timedelta(milliseconds=20)
    assert all(record.clocks[clock] > timedelta() for clock in (Clock.QUEUED, Clock.STARTING, Clock.RUNNING))


def test_gangs_are_listed_newest_first_and_live_ones_alone(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), DONE)
    ledger.submit(a_gang("dag/second/train"), a_claim())
    ledger.submit(a_gang("dag/third/train"), a_claim())
    names = [record.gang_id for record in ledger.list_gangs()]
    assert names == ["dag/third/train", "dag/second/train", "dag/run/train"]
    assert [record.gang_id for record in ledger.list_gangs(live_only=True, limit=1)] == ["dag/third/train"]
    both = ledger.states(["dag/run/train", "dag/second/train", "dag/never/train"])
    assert {name: record.state for name, record in both.items()} == {
        "dag/run/train": GangState.SUCCEEDED,
        "dag/second/train": GangState.QUEUED,
    }
    assert ledger.states([]) == {}


def test_history_is_in_the_order_of_what_happened(ledger: Ledger) -> None:
    ledger.end_attempt(running(ledger, GANG), DONE)
    rows = ledger.history()
    assert [row.event for row in rows] == [
        "submitted", "admitted", "launched", "started", "claimed", "ended", "finished",
    ]  # fmt: skip
    assert [row.number for row in rows] == sorted(row.number for row in rows)
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    assert rows[0].details == {"how": "new", "owner": "try-1"}
