"""The outbox: acts that were decided, each carried out by whoever claims it."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, and_, delete, or_, select, update

from gang_ledgers.ledger import OutboxItem
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_codec import PLACEMENT
from gang_ledgers.sql_engine import latest_time
from gang_ledgers.sql_rows import one, request_of
from gang_ledgers.sql_tables import attempts, outbox, submissions
from gang_scheduler.gang import AttemptKey


def claim(connection: Connection, host_id: str, limit: int, claim_for: dict[str, timedelta]) -> list[OutboxItem]:
    """Claim what nobody holds; a claim of a kind expires after `claim_for[kind]`."""
    now = latest_time(connection)
    is_free = or_(outbox.c.claimed_until.is_(None), outbox.c.claimed_until <= now)
    query = (
        select(outbox, submissions.c.request, submissions.c.run_dir, submissions.c.resume_from)
        .add_columns(attempts.c.placement, attempts.c.backend_ref)
        .join(
            submissions,
            and_(submissions.c.gang_id == outbox.c.gang_id, submissions.c.submission == outbox.c.submission),
        )
        .join(
            attempts,
            and_(
                attempts.c.gang_id == outbox.c.gang_id,
                attempts.c.submission == outbox.c.submission,
                attempts.c.attempt == outbox.c.attempt,
            ),
        )
        .where(outbox.c.host_id == host_id, is_free)
        .order_by(outbox.c.number)
        .limit(limit)
        .with_for_update(skip_locked=True, of=outbox)
    )
    rows = connection.execute(query).all()
    for row in rows:
        connection.execute(
            update(outbox)
            .where(outbox.c.number == row.number)
            .values(claimed_until=now + claim_for[row.kind], tries=row.tries + 1)
        )
    return [
        OutboxItem(
            number=row.number,
            kind=row.kind,
            key=AttemptKey(row.gang_id, row.submission, row.attempt),
            pool=row.pool,
            request=request_of(row),
            placement=PLACEMENT.validate_json(row.placement),
            run_dir=row.run_dir,
            resume_from=row.resume_from,
            backend_ref=row.backend_ref,
        )
        for row in rows
    ]


def finish(change: Change, number: int, backend_ref: str, error: str) -> None:
    """Take the item out; a launch is remembered with the backend's ref."""
    taken = delete(outbox).where(outbox.c.number == number)
    row = change.connection.execute(
        taken.returning(outbox.c.kind, outbox.c.gang_id, outbox.c.submission, outbox.c.attempt)
    ).one_or_none()
    if row is None or row.kind != "launch" or error:
        return
    key = AttemptKey(row.gang_id, row.submission, row.attempt)
    found = one(change.connection, key.gang_id, key.submission)
    if found is None or found.attempt != key.attempt:
        return
    change.set_attempt(key, launched_at=change.now, backend_ref=found.a_backend_ref or backend_ref)
    change.set(found)
    change.tell(key, "launched", f"the supervisor of attempt {key.attempt} was launched")
