"""The supervisor's side: starting, renewing and ending one attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, case, or_, select, update

from gang_ledgers.ledger import Directive, Progress
from gang_ledgers.sql_change import Change, is_attempt
from gang_ledgers.sql_codec import END, VERDICT, encode, encode_mapping, encode_progress, storable_end
from gang_ledgers.sql_engine import latest_time
from gang_ledgers.sql_rows import SubmissionRow, one
from gang_ledgers.sql_tables import attempts, submissions
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import HOLDS_CAPACITY, GangState
from gang_scheduler.judge import judge
from gang_scheduler.verdict import AttemptEnd, Cause, CauseClass

_WITH_SUPERVISOR = [state.value for state in HOLDS_CAPACITY if state is not GangState.ADMITTED]


def start(change: Change, key: AttemptKey, backend_ref: str, lease: timedelta) -> bool:
    """Confirm the attempt, unless it is no longer wanted; asking again with the same ref gives the same answer."""
    row = one(change.connection, key.gang_id, key.submission)
    if row is None or row.attempt != key.attempt or row.a_ended_at is not None:
        return False
    if row.state == GangState.STARTING.value and row.a_backend_ref == backend_ref:
        return True
    if row.state != GangState.ADMITTED.value or row.stop_is_requested or row.is_released:
        return False
    change.set_attempt(key, started_at=change.now, lease_expires_at=change.now + lease, backend_ref=backend_ref)
    change.enter(row, GangState.STARTING)
    change.tell(key, "started", f"the supervisor of attempt {key.attempt} confirmed the start")
    return True


def renew(connection: Connection, key: AttemptKey, progress: Progress | None, lease: timedelta) -> Directive | None:
    """Renew the lease; None if the state has to change with it, which `renew_and_move` does in a change.

    Most renewals change nothing that a plan rests on, so they don't wait for other changes.
    """
    where = (submissions.c.gang_id == key.gang_id) & (submissions.c.submission == key.submission)
    columns = (submissions.c.state, submissions.c.attempt, submissions.c.stop_is_requested)
    row = connection.execute(select(*columns).where(where)).one_or_none()
    if row is None or row.attempt != key.attempt or row.state not in _WITH_SUPERVISOR:
        return Directive.SUPERSEDED
    if _state_now(row.state, row.stop_is_requested, _is_claimed(progress)) is not GangState(row.state):
        return None
    is_still_so = where & (submissions.c.attempt == key.attempt) & submissions.c.state.in_(_WITH_SUPERVISOR)
    touched = connection.execute(update(submissions).where(is_still_so).values(change=submissions.c.change + 1))
    if touched.rowcount != 1:
        return Directive.SUPERSEDED
    _write_renewal(connection, key, progress, lease)
    return Directive.STOP if row.stop_is_requested else Directive.GO_ON


def renew_and_move(change: Change, key: AttemptKey, progress: Progress | None, lease: timedelta) -> Directive:
    """Renew the lease, and let the state follow: rank 0's claim was seen, or contact is back."""
    row = one(change.connection, key.gang_id, key.submission)
    if row is None or row.attempt != key.attempt or row.state not in _WITH_SUPERVISOR:
        return Directive.SUPERSEDED
    _write_renewal(change.connection, key, progress, lease)
    state = _state_now(row.state, row.stop_is_requested, _is_claimed(progress) or row.a_claimed_at is not None)
    if state is not GangState(row.state):
        change.enter(row, state)
    if row.state == GangState.UNKNOWN.value:
        change.take_back(key, "probe")
        change.tell(key, "renewed", f"contact is back: the supervisor of attempt {key.attempt} renewed its lease")
    if row.a_claimed_at is None and _is_claimed(progress):
        assert progress is not None
        change.set_attempt(key, claimed_at=change.now)
        change.tell(
            key,
            "claimed",
            f"rank 0 has claimed the run folder and is at step {progress.step or 0}",
            claim=progress.claimed_attempt,
            step=progress.step,
            last_committed_step=progress.last_committed_step,
        )
    return Directive.STOP if row.stop_is_requested else Directive.GO_ON


def _is_claimed(progress: Progress | None) -> bool:
    return progress is not None and (progress.claimed_attempt is not None or progress.step is not None)


def _state_now(said: str, stop_is_requested: bool, is_claimed: bool) -> GangState:
    """The state in which an attempt with a live supervisor belongs."""
    state = GangState(said)
    if state is GangState.STARTING and is_claimed:
        return GangState.RUNNING
    if state is not GangState.UNKNOWN:
        return state
    if stop_is_requested:
        return GangState.STOPPING
    return GangState.RUNNING if is_claimed else GangState.STARTING


def _write_renewal(connection: Connection, key: AttemptKey, progress: Progress | None, lease: timedelta) -> None:
    now = latest_time(connection)
    values: dict[str, Any] = {"lease_expires_at": now + lease}
    if progress is not None:
        values["progress"] = encode_progress(progress)
        step = progress.last_committed_step
        if step is not None:
            is_new = or_(attempts.c.committed_step.is_(None), attempts.c.committed_step < step)
            values |= {"committed_step": step, "saved_at": case((is_new, now), else_=attempts.c.saved_at)}
    connection.execute(update(attempts).where(is_attempt(key)).values(**values))


def end(change: Change, key: AttemptKey, facts: AttemptEnd, result: Mapping[str, Any] | None) -> bool:
    """Record the end and its verdict; False if there is nothing to be decided: known before, or not the current one."""
    facts = storable_end(facts)
    attempt = change.connection.execute(select(attempts).where(is_attempt(key))).one_or_none()
    if attempt is None or attempt.ended_at is not None:
        return False
    row = one(change.connection, key.gang_id, key.submission)
    assert row is not None
    is_current = row.attempt == key.attempt and row.state in {state.value for state in HOLDS_CAPACITY}
    verdict = judge(_with_what_is_known(facts, row) if is_current else facts)
    values: dict[str, Any] = {
        "ended_at": change.now,
        "end_facts": encode(END, facts),
        "verdict": encode(VERDICT, verdict),
    }
    if facts.last_committed_step is not None:
        values["committed_step"] = facts.last_committed_step
        if facts.last_committed_step > (attempt.committed_step or 0):
            values["saved_at"] = change.now
    change.set_attempt(key, **values)
    change.take_back(key)
    change.tell(
        key,
        "ended",
        verdict.sentence,
        cause=verdict.cause,
        step=facts.last_step,
        last_committed_step=facts.last_committed_step,
        proof=facts.proof,
    )
    if is_current:
        change.enter(
            row,
            GangState.RECOVERING,
            verdict=values["verdict"],
            verdict_is_pending=True,
            infrastructure_ends=row.infrastructure_ends + (verdict.cause_class is CauseClass.INFRASTRUCTURE),
            user_ends=row.user_ends + (verdict.cause_class is CauseClass.USER),
            result=encode_mapping(result) if verdict.cause is Cause.DONE else row.result,
        )
    return is_current


def _with_what_is_known(facts: AttemptEnd, row: SubmissionRow) -> AttemptEnd:
    """The ledger knows of a stop that the supervisor may not have heard of before its ranks ended."""
    return replace(facts, was_asked_to_stop=facts.was_asked_to_stop or row.stop_is_requested)
