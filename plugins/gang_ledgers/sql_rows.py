"""Rows as the records that the ledger hands out."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, select

from gang_ledgers.ledger import GangRecord
from gang_ledgers.sql_codec import PLACEMENT, PROGRESS, REQUEST, VERDICT, decode, decode_mapping
from gang_ledgers.sql_tables import attempts, submissions
from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.gang_state import Clock, GangState
from gang_scheduler.snapshot import GangView

SubmissionRow = Row[Any]
_LONG = frozenset({"request", "result", "a_end_facts"})


def with_attempt() -> Select[Any]:
    """Submissions, each with its current attempt, whose columns are called `a_<name>`."""
    is_current = and_(
        attempts.c.gang_id == submissions.c.gang_id,
        attempts.c.submission == submissions.c.submission,
        attempts.c.attempt == submissions.c.attempt,
    )
    columns = [column.label(f"a_{column.name}") for column in attempts.c]
    return select(submissions, *columns).select_from(submissions.outerjoin(attempts, is_current))


@cache
def without_long_texts() -> Select[Any]:
    """The same without what may be long and is seldom asked for: the request, the result, the facts of an end."""
    columns = [column for column in with_attempt().selected_columns if column.name not in _LONG]
    return with_attempt().with_only_columns(*columns, maintain_column_froms=True)


def newest(connection: Connection, gang_id: str) -> SubmissionRow | None:
    """The gang's newest submission."""
    query = with_attempt().where(submissions.c.gang_id == gang_id).order_by(submissions.c.submission.desc()).limit(1)
    return connection.execute(query).one_or_none()


def newest_of_each(gang_ids: list[str]) -> Select[Any]:
    """The newest submission of each of the gangs."""
    last = (
        select(submissions.c.gang_id, func.max(submissions.c.submission).label("submission"))
        .where(submissions.c.gang_id.in_(gang_ids))
        .group_by(submissions.c.gang_id)
        .subquery()
    )
    is_last = and_(submissions.c.gang_id == last.c.gang_id, submissions.c.submission == last.c.submission)
    return with_attempt().join(last, is_last)


def one(connection: Connection, gang_id: str, submission: int) -> SubmissionRow | None:
    """One submission."""
    query = with_attempt().where(submissions.c.gang_id == gang_id, submissions.c.submission == submission)
    return connection.execute(query).one_or_none()


def key_of(row: SubmissionRow) -> AttemptKey:
    """Its current attempt."""
    return AttemptKey(row.gang_id, row.submission, row.attempt)


def request_of(row: Row[*tuple[Any, ...]]) -> GangRequest:
    """What was asked for."""
    return REQUEST.validate_json(row.request)


def clocks_of(row: SubmissionRow) -> dict[Clock, timedelta]:
    """What the clocks had run before the present state."""
    return {
        Clock.QUEUED: timedelta(seconds=row.queued_s),
        Clock.STARTING: timedelta(seconds=row.starting_s),
        Clock.RUNNING: timedelta(seconds=row.running_s),
        Clock.RECOVERING: timedelta(seconds=row.recovering_s),
    }


def to_view(row: SubmissionRow, request: GangRequest, placement: Placement | None) -> GangView:
    """As `plan` sees it; what was learned of past runs is for the caller to add."""
    spent = clocks_of(row)
    return GangView(
        request=request,
        submission=row.submission,
        attempt=row.attempt,
        state=GangState(row.state),
        submitted_at=row.submitted_at,
        state_since=row.state_since,
        placement=placement,
        admitted_at=row.a_admitted_at,
        start_by=row.a_start_by,
        lease_expires_at=row.a_lease_expires_at,
        stop_is_requested=row.stop_is_requested,
        stop_deadline=row.stop_deadline,
        stop_why=row.stop_why,
        is_released=row.is_released,
        limit_verdict=decode(VERDICT, row.limit_verdict),
        verdict=decode(VERDICT, row.verdict) if row.verdict_is_pending else None,
        infrastructure_ends=row.infrastructure_ends,
        user_ends=row.user_ends,
        not_before=row.not_before,
        queued_spent=spent[Clock.QUEUED],
        starting_spent=spent[Clock.STARTING],
        running_spent=spent[Clock.RUNNING],
        recovering_spent=spent[Clock.RECOVERING],
        wait_reason=row.wait_reason,
        wait_sentence=row.wait_sentence,
        is_held=row.is_held,
        held_why=row.held_why,
        saved_at=row.a_saved_at,
    )


def view_of(connection: Connection, key: AttemptKey) -> GangView:
    """One submission as `plan` sees it, without what was learned of past runs."""
    row = one(connection, key.gang_id, key.submission)
    assert row is not None, f"{key} was there a moment ago"
    return to_view(row, request_of(row), decode(PLACEMENT, row.a_placement))


def to_record(row: SubmissionRow) -> GangRecord:
    """As tasks, pages and the command line see it; the clocks are as of the last change of state."""
    return GangRecord(
        gang_id=row.gang_id,
        submission=row.submission,
        attempt=row.attempt,
        state=GangState(row.state),
        request=request_of(row),
        run_dir=row.run_dir,
        owner=row.owner,
        submitted_at=row.submitted_at,
        resume_from=row.resume_from,
        placement=decode(PLACEMENT, row.a_placement),
        backend_ref=row.a_backend_ref or "",
        lease_expires_at=row.a_lease_expires_at,
        wait_reason=row.wait_reason,
        wait_sentence=row.wait_sentence,
        progress=decode(PROGRESS, row.a_progress),
        verdict=decode(VERDICT, row.verdict),
        result=decode_mapping(row.result),
        clocks=clocks_of(row),
        infrastructure_ends=row.infrastructure_ends,
        user_ends=row.user_ends,
        ended_at=row.ended_at,
        change=row.change,
        is_held=row.is_held,
        held_why=row.held_why,
    )
