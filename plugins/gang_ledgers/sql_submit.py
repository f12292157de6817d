"""Submitting and releasing: what people and tasks ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Row, insert, select

from gang_ledgers.ledger import Claim, How, Submitted
from gang_ledgers.run_dirs import run_dir
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_codec import REQUEST, VERDICT, decode_mapping, encode
from gang_ledgers.sql_rows import SubmissionRow, key_of, newest, one
from gang_ledgers.sql_tables import attempts, submissions
from gang_scheduler.gang import AttemptKey, GangRequest
from gang_scheduler.gang_state import ENDED, HOLDS_CAPACITY, GangState
from gang_scheduler.submission_rules import Decision, Done, Existing, decide_submission
from gang_scheduler.verdict import Cause, Verdict

# What a submission is given when it is wanted again after a stop, a release or an end.
_NOT_STOPPED: dict[str, Any] = {
    "stop_is_requested": False,
    "is_released": False,
    "stop_why": "",
    "stop_deadline": None,
    "limit_verdict": None,
}


def submit(change: Change, request: GangRequest, claim: Claim, runs_dir: Path) -> Submitted:
    """Decide by the rules of the core, and write what they say."""
    row = newest(change.connection, request.gang_id)
    done = _done(change, request.run_spec_digest)
    decision = decide_submission(
        None if row is None else _existing(change, row), request.run_spec_digest, claim, _named(done)
    )
    if row is not None and decision.releases_existing:
        _release(change, row, f"its successor is submission {decision.submission}: the RunSpec's digest has changed")
    if decision.how in (How.NEW, How.RESUBMITTED, How.ALREADY_DONE):
        _insert(change, request, claim, decision, runs_dir, done)
    elif row is not None:
        _take_up(change, row, request, claim, decision)
    change.flush()
    answer = one(change.connection, request.gang_id, decision.submission)
    assert answer is not None
    return Submitted(
        gang_id=request.gang_id,
        submission=answer.submission,
        state=GangState(answer.state),
        how=decision.how,
        sentence=decision.sentence,
        run_dir=answer.run_dir,
        resume_from=answer.resume_from,
        result=decode_mapping(answer.result),
    )


def _existing(change: Change, row: SubmissionRow) -> Existing:
    resumable = _resumable(change, row.gang_id, row.digest)
    return Existing(
        submission=row.submission,
        state=GangState(row.state),
        run_spec_digest=row.digest,
        generation=row.generation,
        asked_with=row.asked_with,
        holds_attempt=GangState(row.state) in HOLDS_CAPACITY,
        resumable_submission=None if resumable is None else resumable.submission,
        resumable_step=None if resumable is None else resumable.committed_step,
    )


def _resumable(change: Change, gang_id: str, digest: str) -> Row[int, int | None] | None:
    """The newest committed checkpoint of the gang's submissions with that digest, as far as the ledger was told."""
    query = (
        select(attempts.c.submission, attempts.c.committed_step)
        .join(
            submissions,
            (submissions.c.gang_id == attempts.c.gang_id) & (submissions.c.submission == attempts.c.submission),
        )
        .where(submissions.c.gang_id == gang_id, submissions.c.digest == digest, attempts.c.committed_step.is_not(None))
        .order_by(attempts.c.submission.desc(), attempts.c.committed_step.desc())
        .limit(1)
    )
    return change.connection.execute(query).one_or_none()


def _done(change: Change, digest: str) -> Row[str, int, str] | None:
    """The newest submission that itself succeeded with that digest."""
    query = (
        select(submissions.c.gang_id, submissions.c.submission, submissions.c.result)
        .where(
            submissions.c.digest == digest,
            submissions.c.state == GangState.SUCCEEDED.value,
            submissions.c.reused_from == "",
        )
        .order_by(submissions.c.ended_at.desc())
        .limit(1)
    )
    return change.connection.execute(query).one_or_none()


def _named(done: Row[str, int, str] | None) -> Done | None:
    return None if done is None else Done(done.gang_id, done.submission)


def _insert(
    change: Change,
    request: GangRequest,
    claim: Claim,
    decision: Decision,
    runs_dir: Path,
    done: Row[str, int, str] | None,
) -> None:
    is_done = decision.how is How.ALREADY_DONE
    verdict = Verdict(Cause.DONE, 1.0, decision.sentence, "finish") if is_done else None
    state = GangState.SUCCEEDED if is_done else GangState.QUEUED
    change.connection.execute(
        insert(submissions).values(
            gang_id=request.gang_id,
            submission=decision.submission,
            dag_id=request.dag_id,
            digest=request.run_spec_digest,
            request=encode(REQUEST, request),
            run_dir=run_dir(runs_dir, request.gang_id, decision.submission),
            resume_from=run_dir(runs_dir, request.gang_id, decision.resume_from) if decision.resume_from else "",
            reused_from=f"{done.gang_id} submission {done.submission}" if is_done and done is not None else "",
            owner=claim.owner,
            generation=claim.generation,
            asked_with=claim.asked_with,
            submitted_at=change.now,
            state=state.value,
            state_since=change.now,
            ended_at=change.now if is_done else None,
            verdict=encode(VERDICT, verdict) if verdict else None,
            result=done.result if is_done and done is not None else "{}",
            version=change.version,
            request_version=change.version,
        )
    )
    key = AttemptKey(request.gang_id, decision.submission, 0)
    change.tell(key, "submitted", decision.sentence, how=decision.how, owner=claim.owner)
    if is_done:
        change.tell(key, "finished", decision.sentence, state=state, cause=Cause.DONE)


def _take_up(change: Change, row: SubmissionRow, request: GangRequest, claim: Claim, decision: Decision) -> None:
    """Go on with the existing submission: for another owner, and wanted again if it was resting or stopping."""
    values: dict[str, Any] = {}
    if decision.takes_claim:
        values = {"owner": claim.owner, "generation": claim.generation, "asked_with": claim.asked_with}
    state = GangState(row.state)
    is_cleared = decision.how is How.RESUMED
    if is_cleared:
        values |= _NOT_STOPPED
        if claim.generation > row.generation:  # a person asked again, so the budgets are whole again
            values |= {"infrastructure_ends": 0, "user_ends": 0}
        if state not in HOLDS_CAPACITY:  # what holds slots is accounted by the request that they were given for
            values |= {"request": encode(REQUEST, request), "request_version": change.version}
        if decision.stops_attempt:
            values |= {"stop_is_requested": True, "stop_why": "its task was cleared; the next attempt goes on"}
    if is_cleared and state in ENDED:
        change.enter(row, GangState.QUEUED, not_before=None, verdict=None, wait_reason="", wait_sentence="", **values)
    elif any(getattr(row, name) != value for name, value in values.items() if name != "request_version"):
        change.set(row, **values)
    else:
        return
    change.tell(key_of(row), "submitted", decision.sentence, how=decision.how, owner=claim.owner)


def release(change: Change, gang_id: str, owner: str | None, who: str, why: str) -> bool:
    """Ask the gang to stop and rest; False for anybody but its owner, and for a gang that has ended."""
    row = newest(change.connection, gang_id)
    if row is None or GangState(row.state) in ENDED or owner not in (None, row.owner):
        return False
    if not row.is_released:
        _release(change, row, f"{why} ({who})")
    return True


def _release(change: Change, row: SubmissionRow, why: str) -> None:
    if GangState(row.state) in ENDED:
        return
    change.set(row, is_released=True, stop_is_requested=True, stop_why=why)
    change.tell(key_of(row), "released", why)
