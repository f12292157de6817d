from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gang_scheduler.actions import Action, Admit, AskStop, Finish, Lapse, MarkUnknown, Requeue, Wait, WaitReason
from gang_scheduler.gang import Budgets, ClockLimits
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeState
from gang_scheduler.plan import plan
from gang_scheduler.snapshot import GangView
from gang_scheduler.verdict import Cause
from tests.builders import NOON, a_gang, a_node, a_snapshot, a_verdict, a_view

S = timedelta(seconds=1)
QUEUED, ADMITTED, STARTING, RUNNING, STOPPING, UNKNOWN, RECOVERING = list(GangState)[:7]


def only(actions: tuple[Action, ...]) -> Action:
    assert len(actions) == 1, actions
    return actions[0]


def ended(cause: Cause, **fields: Any) -> GangView:
    return a_view(state=RECOVERING, verdict=a_verdict(cause), **fields)


# --- what becomes of one gang, whatever the others do


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(a_view(state=RUNNING), None, id="running within its lease"),
        pytest.param(a_view(state=STARTING), None, id="starting within its lease"),
        pytest.param(a_view(state=ADMITTED), None, id="admitted before start-by"),
        pytest.param(a_view(state=UNKNOWN, lease_expires_at=NOON - 99 * S), None, id="unknown is not dead"),
        pytest.param(a_view(state=ADMITTED, start_by=NOON), Lapse, id="not started by start-by"),
        pytest.param(a_view(state=RUNNING, lease_expires_at=NOON), MarkUnknown, id="lease expired"),
        pytest.param(
            a_view(state=STOPPING, lease_expires_at=NOON, stop_is_requested=True),
            MarkUnknown,
            id="lease expired, stopping",
        ),
        pytest.param(a_view(state=RUNNING, stop_is_requested=True), AskStop, id="stop requested while running"),
        pytest.param(a_view(state=STARTING, stop_is_requested=True), AskStop, id="stop requested while starting"),
        pytest.param(
            a_view(state=STOPPING, stop_is_requested=True, stop_deadline=NOON + S), None, id="stopping within its grace"
        ),
        pytest.param(
            a_view(state=STOPPING, stop_is_requested=True, stop_deadline=NOON), AskStop, id="stopping past its grace"
        ),
        pytest.param(
            a_view(
                state=STOPPING,
                stop_is_requested=True,
                stop_deadline=NOON,
                limit_verdict=a_verdict(Cause.LIMIT_REACHED),
            ),
            AskStop,
            id="stopping past its grace, for a limit",
        ),
        pytest.param(a_view(state=ADMITTED, stop_is_requested=True), Requeue, id="stop requested before the start"),
        pytest.param(a_view(state=ADMITTED, is_released=True), Finish, id="released before the start"),
        pytest.param(a_view(state=QUEUED, is_released=True), Finish, id="released while queued"),
        pytest.param(a_view(state=RECOVERING, is_released=True), Finish, id="released between attempts"),
        pytest.param(
            a_view(state=RUNNING, is_released=True, stop_is_requested=True), AskStop, id="released while running"
        ),
    ],
)
def test_fate_of_a_gang(view: GangView, expected: type[Action] | None) -> None:
    actions = plan(a_snapshot(view))
    assert [type(action) for action in actions] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("view", "state"),
    [
        pytest.param(ended(Cause.DONE), GangState.SUCCEEDED, id="done"),
        pytest.param(ended(Cause.DONE, is_released=True), GangState.SUCCEEDED, id="done though released"),
        pytest.param(
            ended(Cause.DONE, limit_verdict=a_verdict(Cause.LIMIT_REACHED)), GangState.SUCCEEDED, id="done at the limit"
        ),
        pytest.param(ended(Cause.BAD_SPEC, user_ends=1), GangState.FAILED, id="bad spec"),
        pytest.param(ended(Cause.BAD_DATA, user_ends=1), GangState.FAILED, id="bad data"),
        pytest.param(ended(Cause.PROGRAM_ERROR, user_ends=1), GangState.FAILED, id="program error without retries"),
        pytest.param(
            ended(Cause.PROGRAM_ERROR, user_ends=1, is_released=True), GangState.FAILED, id="program error, released"
        ),
        pytest.param(
            a_view(a_gang(budgets=Budgets(user=3)), RECOVERING, verdict=a_verdict(Cause.BAD_DATA), user_ends=1),
            GangState.FAILED,
            id="bad data is not retried",
        ),
        pytest.param(ended(Cause.INTERRUPTED, is_released=True), GangState.INTERRUPTED, id="interrupted, released"),
        pytest.param(ended(Cause.RANK_KILLED, is_released=True), GangState.INTERRUPTED, id="killed, released"),
        pytest.param(
            ended(Cause.RANK_KILLED, infrastructure_ends=6), GangState.FAILED, id="infrastructure budget spent"
        ),
        pytest.param(
            ended(Cause.INTERRUPTED, limit_verdict=a_verdict(Cause.LIMIT_REACHED)),
            GangState.FAILED,
            id="stopped by a limit",
        ),
    ],
)
def test_submission_is_over_when_an_attempt_ended_so(view: GangView, state: GangState) -> None:
    action = only(plan(a_snapshot(view)))
    assert isinstance(action, Finish)
    assert action.state is state


@pytest.mark.parametrize(
    ("view", "back_off_s"),
    [
        pytest.param(ended(Cause.RANK_KILLED, infrastructure_ends=1), 2, id="first infrastructure end"),
        pytest.param(ended(Cause.RANK_KILLED, infrastructure_ends=2), 4, id="second"),
        pytest.param(ended(Cause.LAPSED, infrastructure_ends=5), 32, id="last that is borne"),
        pytest.param(
            a_view(a_gang(budgets=Budgets(infrastructure=99)), RECOVERING, verdict=a_verdict(), infrastructure_ends=50),
            300,
            id="never longer than five minutes",
        ),
        pytest.param(ended(Cause.INTERRUPTED), 0, id="interrupted, not released"),
        pytest.param(
            ended(Cause.INTERRUPTED, infrastructure_ends=5, user_ends=0), 0, id="a requested stop costs nothing"
        ),
        pytest.param(
            a_view(a_gang(budgets=Budgets(user=1)), RECOVERING, verdict=a_verdict(Cause.PROGRAM_ERROR), user_ends=1),
            0,
            id="user retry left",
        ),
    ],
)
def test_submission_is_queued_again_when_an_attempt_ended_so(view: GangView, back_off_s: int) -> None:
    action = only(plan(a_snapshot(view)))
    assert isinstance(action, Requeue)
    assert action.back_off == timedelta(seconds=back_off_s)


def test_message_names_both_budgets_numbers_when_they_are_spent() -> None:
    action = only(plan(a_snapshot(ended(Cause.NODE_LOST, infrastructure_ends=6))))
    assert isinstance(action, Finish)
    assert "infrastructure end 6, and 5 are borne" in action.sentence
    assert "infrastructure_budget on a gang operator" in action.sentence
    assert action.verdict.next_act == "fail"


# --- the four clocks


@pytest.mark.parametrize(
    ("view", "expected", "named"),
    [
        pytest.param(
            a_view(a_gang(limits=ClockLimits(queued=60 * S)), QUEUED), Finish, "0:01:00 (limits.queued", id="queued"
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(queued=90 * S)), QUEUED, queued_spent=30 * S),
            Finish,
            "queue_limit",
            id="queued, in two parts",
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(starting=60 * S)), ADMITTED),
            Finish,
            "start_limit",
            id="starting, not launched",
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(starting=60 * S)), STARTING), AskStop, "start_limit", id="starting"
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(running=100 * S)), RUNNING, running_spent=40 * S),
            AskStop,
            "run_limit",
            id="running, over two attempts",
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(recovering=60 * S)), RECOVERING), Finish, "recovery_limit", id="recovering"
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(recovering=60 * S)), UNKNOWN),
            AskStop,
            "recovery_limit",
            id="out of contact",
        ),
    ],
)
def test_limit_ends_the_gang_when_its_clock_has_run_as_long(view: GangView, expected: type, named: str) -> None:
    action = only(plan(a_snapshot(view)))
    assert isinstance(action, expected)
    assert isinstance(action, Finish | AskStop)
    assert action.verdict is not None
    assert action.verdict.cause is Cause.LIMIT_REACHED
    assert named in action.sentence


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(
            a_view(a_gang(limits=ClockLimits(queued=60 * S)), RUNNING, queued_spent=99 * S),
            id="queue time is no run time",
        ),
        pytest.param(a_view(a_gang(limits=ClockLimits(running=61 * S)), RUNNING), id="a second before the limit"),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(starting=70 * S)), STARTING, starting_spent=600 * S),
            id="each start has its own time",
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(running=60 * S)), STOPPING, stop_is_requested=True),
            id="a stopping attempt has its grace",
        ),
        pytest.param(
            a_view(
                a_gang(limits=ClockLimits(recovering=S)),
                UNKNOWN,
                limit_verdict=a_verdict(Cause.LIMIT_REACHED),
                stop_deadline=NOON + S,
            ),
            id="asked already",
        ),
    ],
)
def test_limit_does_nothing_when_it_is_not_its_time(view: GangView) -> None:
    assert plan(a_snapshot(view)) == ()


def test_limit_of_the_author_frees_an_unknown_attempt_when_the_grace_is_over_too() -> None:
    view = a_view(state=UNKNOWN, limit_verdict=a_verdict(Cause.LIMIT_REACHED), stop_deadline=NOON)
    action = only(plan(a_snapshot(view)))
    assert isinstance(action, Finish)
    assert action.state is GangState.FAILED
    assert "its death was never proven" in action.sentence


# --- admission


def test_whole_gang_is_admitted_when_it_fits() -> None:
    action = only(plan(a_snapshot(a_view(a_gang(workers=2)))))
    assert isinstance(action, Admit)
    assert action.key.attempt == 1
    assert sum(placed.workers for placed in action.placement.workers) == 2


def test_next_attempt_has_the_next_number_when_a_gang_is_tried_again() -> None:
    action = only(plan(a_snapshot(a_view(state=RECOVERING, attempt=3))))
    assert isinstance(action, Admit)
    assert action.key.attempt == 4


def test_gang_waits_whole_when_a_part_of_it_would_fit() -> None:
    holder = a_view(a_gang("dag/run-a/train", workers=1), RUNNING)
    action = only(plan(a_snapshot(holder, a_view(a_gang("dag/run-b/train", workers=2)))))
    assert action == Wait(
        a_view(a_gang("dag/run-b/train")).key,
        WaitReason.NO_CAPACITY,
        "asks 2 workers (2 CPUs); gang pool 'local' has 1 CPU free of 2 CPUs; held by dag/run-a/train (1 CPU, running)",
    )


def test_wait_is_said_once_when_nothing_changes() -> None:
    holder = a_view(a_gang("dag/run-a/train"), RUNNING)
    waiting = a_view(a_gang("dag/run-b/train"))
    said = only(plan(a_snapshot(holder, waiting)))
    assert isinstance(said, Wait)
    told = a_view(a_gang("dag/run-b/train"), wait_reason=said.reason.value, wait_sentence=said.sentence)
    assert plan(a_snapshot(holder, told)) == ()


def test_wait_is_said_again_when_another_gang_holds_the_slots() -> None:
    waiting = a_view(a_gang("dag/run-b/train"))
    said = only(plan(a_snapshot(a_view(a_gang("dag/run-a/train"), RUNNING), waiting)))
    assert isinstance(said, Wait)
    told = a_view(a_gang("dag/run-b/train"), wait_reason=said.reason.value, wait_sentence=said.sentence)
    assert "dag/run-c" in only(plan(a_snapshot(a_view(a_gang("dag/run-c/train"), RUNNING), told))).sentence


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"gang_priority": 1}, {}, id="higher priority"),
        pytest.param({"gang_priority": 0}, {"gang_priority": -1}, id="lower priority"),
    ],
)
def test_priority_decides_when_only_one_fits(first: dict[str, int], second: dict[str, int]) -> None:
    early, late = a_view(a_gang("a/r/t", **second), waited=60 * S), a_view(a_gang("b/r/t", **first), waited=S)
    admitted = [act.key.gang_id for act in plan(a_snapshot(early, late)) if isinstance(act, Admit)]
    assert admitted == ["b/r/t"]


def test_age_decides_when_priorities_are_equal() -> None:
    young, old = a_view(a_gang("a/r/t"), waited=S), a_view(a_gang("b/r/t"), waited=60 * S)
    admitted = [act.key.gang_id for act in plan(a_snapshot(young, old)) if isinstance(act, Admit)]
    assert admitted == ["b/r/t"]


def test_smaller_gang_stays_behind_when_the_first_in_line_does_not_fit() -> None:
    holder = a_view(a_gang("h/r/t", workers=1), RUNNING)
    first = a_view(a_gang("big/r/t", workers=2), waited=60 * S)
    small = a_view(a_gang("small/r/t", workers=1), waited=S)
    reasons = {act.key.gang_id: act.reason for act in plan(a_snapshot(holder, first, small)) if isinstance(act, Wait)}
    assert reasons == {"big/r/t": WaitReason.NO_CAPACITY, "small/r/t": WaitReason.RESERVED}


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        pytest.param(a_view(a_gang("a/r/t"), RECOVERING, not_before=NOON + S), WaitReason.BACKING_OFF, id="backs off"),
        pytest.param(
            a_view(a_gang("a/r/t", workers=9)), WaitReason.NO_CAPACITY, id="would not fit into the empty pool"
        ),
        pytest.param(a_view(a_gang("a/r/t", gang_pool="gpu")), WaitReason.NO_NODES, id="is for a pool without nodes"),
    ],
)
def test_gang_stands_in_nobodys_way_when_it_waits_for_a_reason_of_its_own(first: GangView, reason: WaitReason) -> None:
    waits, admits = plan(a_snapshot(first, a_view(a_gang("z/r/t"), waited=S)))
    if isinstance(waits, Admit):
        waits, admits = admits, waits
    assert isinstance(waits, Wait)
    assert waits.reason is reason
    assert isinstance(admits, Admit)


def test_new_submission_waits_when_the_one_before_has_not_ended() -> None:
    old = a_view(state=STOPPING, stop_is_requested=True, is_released=True, stop_deadline=NOON + S)
    action = only(plan(a_snapshot(old, a_view(submission=2), nodes=(a_node(cpus=8),))))
    assert isinstance(action, Wait)
    assert action.reason is WaitReason.STOPPING_FIRST
    assert action.sentence == "submission 1 of this gang has to end first"


def test_nothing_is_placed_on_a_node_when_it_is_cordoned() -> None:
    nodes = (a_node(is_cordoned=True, cordon_reason="the host is going down"),)
    action = only(plan(a_snapshot(a_view(), nodes=nodes)))
    assert isinstance(action, Wait)
    assert action.reason is WaitReason.NO_NODES
    assert "localhost is cordoned (the host is going down)" in action.sentence


def test_workers_spread_when_no_single_node_holds_them() -> None:
    nodes = (a_node("node-1", cpus=2), a_node("node-2", cpus=2))
    action = only(plan(a_snapshot(a_view(a_gang(workers=3)), nodes=nodes)))
    assert isinstance(action, Admit)
    assert [(placed.node, placed.workers) for placed in action.placement.workers] == [("node-1", 2), ("node-2", 1)]


def test_slots_are_given_on_in_the_next_plan_when_a_grant_lapses_in_this_one() -> None:
    lapsing = a_view(a_gang("a/r/t"), ADMITTED, start_by=NOON)
    actions = plan(a_snapshot(lapsing, a_view(a_gang("b/r/t"))))
    assert [type(action) for action in actions] == [Lapse, Wait]


def test_fractions_of_a_slot_add_up_when_they_fill_a_node() -> None:
    action = only(plan(a_snapshot(a_view(a_gang(workers=10, cpus=0.1)), nodes=(a_node(cpus=1),))))
    assert isinstance(action, Admit)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(a_view(state=ADMITTED, start_by=NOON + 9 * S), Lapse, id="start-by"),
        pytest.param(a_view(state=RUNNING, lease_expires_at=NOON + 9 * S), MarkUnknown, id="lease"),
        pytest.param(
            a_view(state=STOPPING, stop_deadline=NOON + 9 * S, lease_expires_at=NOON + 99 * S), AskStop, id="grace"
        ),
        pytest.param(
            a_view(a_gang(limits=ClockLimits(running=69 * S)), RUNNING, waited=60 * S, lease_expires_at=NOON + 99 * S),
            AskStop,
            id="limit",
        ),
        pytest.param(
            a_view(a_gang(workers=9, limits=ClockLimits(queued=69 * S)), waited=60 * S), Finish, id="queue limit"
        ),
    ],
)
def test_plan_acts_at_the_moment_when_earlier_plans_had_nothing_to_do(view: GangView, expected: type[Action]) -> None:
    for seconds, acts in ((0, False), (8, False), (9, True), (3, False), (10, True)):
        actions = plan(a_snapshot(view, now=NOON + seconds * S))
        assert any(isinstance(action, expected) for action in actions) == acts, seconds


def test_gang_leaves_its_node_when_earlier_plans_had_nothing_to_do() -> None:
    view = a_view(state=RUNNING, lease_expires_at=NOON + 99 * S)
    assert not plan(a_snapshot(view))
    assert isinstance(only(plan(a_snapshot(view, nodes=[a_node(state=NodeState.DRAINING)]))), AskStop)
