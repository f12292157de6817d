"""Writes what a plan decided; the caller has checked that nothing has changed since the plan's snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import singledispatch

from sqlalchemy import insert, select

from gang_ledgers.sql_change import Change
from gang_ledgers.sql_codec import PLACEMENT, VERDICT, decode, encode
from gang_ledgers.sql_rows import SubmissionRow, key_of, one, request_of
from gang_ledgers.sql_tables import attempts, nodes
from gang_scheduler.actions import Action, Admit, AskStop, Finish, Lapse, MarkUnknown, Requeue, Wait
from gang_scheduler.gang import Placement
from gang_scheduler.gang_state import GangState
from gang_scheduler.judge import judge
from gang_scheduler.verdict import AttemptEnd, Cause, CauseClass

# The supervisor kills at the end of the grace period; this much later its report should have come.
REPORT_WITHIN = timedelta(seconds=15)

_NO_STOP = {"stop_is_requested": False, "stop_why": "", "stop_deadline": None}


def apply_all(change: Change, actions: Sequence[Action]) -> None:
    """Write every action."""
    for action in actions:
        row = one(change.connection, action.key.gang_id, action.key.submission)
        assert row is not None, f"planned for {action.key}, which the ledger does not have"
        apply(action, change, row)


@singledispatch
def apply(action: Action, change: Change, row: SubmissionRow) -> None:  # noqa: ARG001 - the registered ones use them
    """Write one action."""
    raise TypeError(f"no such action: {action!r}")


@apply.register
def _(action: Admit, change: Change, row: SubmissionRow) -> None:
    host_id = _host_of(change, action.placement)
    change.connection.execute(
        insert(attempts).values(
            gang_id=action.key.gang_id,
            submission=action.key.submission,
            attempt=action.key.attempt,
            placement=encode(PLACEMENT, action.placement),
            host_id=host_id,
            admitted_at=change.now,
            start_by=change.now + action.start_within,
        )
    )
    change.enter(
        row,
        GangState.ADMITTED,
        attempt=action.key.attempt,
        not_before=None,
        wait_reason="",
        wait_sentence="",
        **_NO_STOP,
    )
    change.put_out("launch", action.key, action.placement.pool, host_id)
    change.tell(action.key, "admitted", action.sentence)


def _host_of(change: Change, placement: Placement) -> str:
    first = placement.workers[0].node
    query = select(nodes.c.host_id).where(nodes.c.pool == placement.pool, nodes.c.node == first)
    host_id: str = change.connection.execute(query).scalar_one()
    return host_id


@apply.register
def _(action: Wait, change: Change, row: SubmissionRow) -> None:
    change.set(row, wait_reason=action.reason.value, wait_sentence=action.sentence)
    change.tell(action.key, "waiting", action.sentence, reason=action.reason)


@apply.register
def _(action: Requeue, change: Change, row: SubmissionRow) -> None:
    verdict = decode(VERDICT, row.verdict) if row.verdict_is_pending else None
    is_recovery = verdict is not None and verdict.cause_class is not CauseClass.REQUESTED
    _close_attempt(change, row)
    change.enter(
        row,
        GangState.RECOVERING if is_recovery else GangState.QUEUED,
        not_before=change.now + action.back_off,
        verdict_is_pending=False,
        wait_reason="",
        wait_sentence="",
        **_NO_STOP,
    )
    cause = verdict.cause if verdict else Cause.INTERRUPTED
    change.tell(action.key, "requeued", action.sentence, cause=cause, back_off_s=action.back_off.total_seconds())


@apply.register
def _(action: Finish, change: Change, row: SubmissionRow) -> None:
    if GangState(row.state) is not GangState.UNKNOWN:  # the end of that one is not known, and may yet be reported
        _close_attempt(change, row)
    change.take_back(action.key)
    change.enter(
        row,
        action.state,
        verdict=encode(VERDICT, action.verdict),
        verdict_is_pending=False,
        not_before=None,
        wait_reason="",
        wait_sentence="",
    )
    change.tell(action.key, "finished", action.sentence, state=action.state, cause=action.verdict.cause)


@apply.register
def _(action: AskStop, change: Change, row: SubmissionRow) -> None:
    state = GangState(row.state)
    change.enter(
        row,
        state if state is GangState.UNKNOWN else GangState.STOPPING,
        stop_is_requested=True,
        stop_why=row.stop_why or action.sentence,
        stop_deadline=change.now + request_of(row).grace + REPORT_WITHIN,
        limit_verdict=encode(VERDICT, action.verdict) if action.verdict else row.limit_verdict,
    )
    change.put_out("stop", action.key, request_of(row).gang_pool, row.a_host_id)
    change.tell(action.key, "stop-asked", action.sentence)


@apply.register
def _(action: MarkUnknown, change: Change, row: SubmissionRow) -> None:
    # A renewal does not raise the version, so it may have come since the snapshot.
    if row.a_lease_expires_at is None or row.a_lease_expires_at > change.now:
        return
    change.enter(row, GangState.UNKNOWN)
    change.put_out("probe", action.key, request_of(row).gang_pool, row.a_host_id)
    change.tell(action.key, "lease-expired", action.sentence)


@apply.register
def _(action: Lapse, change: Change, row: SubmissionRow) -> None:
    end = AttemptEnd(None, forced_cause=Cause.LAPSED, proof=action.sentence)
    verdict = encode(VERDICT, judge(end))
    change.set_attempt(action.key, ended_at=change.now, verdict=verdict)
    change.take_back(action.key)
    change.enter(
        row,
        GangState.RECOVERING,
        verdict=verdict,
        verdict_is_pending=True,
        infrastructure_ends=row.infrastructure_ends + 1,
    )
    change.tell(action.key, "lapsed", action.sentence)


def _close_attempt(change: Change, row: SubmissionRow) -> None:
    """An attempt that was granted and never started is void; its launch is not carried out any more."""
    if row.a_attempt is None or row.a_ended_at is not None or row.a_started_at is not None:
        return
    change.set_attempt(key_of(row), ended_at=change.now)
    change.take_back(key_of(row))
