"""The outage rule: time in which neither a tick nor a supervisor was heard of is held against nobody."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Column, Connection, Engine, select, update

from gang_ledgers.sql_bulk import update_each
from gang_ledgers.sql_change import Change, changing
from gang_ledgers.sql_engine import latest_time, writing
from gang_ledgers.sql_rows import SubmissionRow
from gang_ledgers.sql_tables import attempts, ledger_contact, submissions

_OFTEN_ENOUGH = timedelta(seconds=1)


def keep_contact(engine: Engine, outage_after: timedelta) -> None:
    """Note that somebody was heard of now; after an outage, move every lease, start-by and clock on by the gap.

    So a machine that was switched off for a night finds its gangs as it left them, neither expired nor at a limit.
    """
    with writing(engine) as connection:
        last, gap = _gap(connection)
        if gap < _OFTEN_ENOUGH:
            return
        if gap <= outage_after:
            _note(connection, last, last + gap)
            return
    with changing(engine) as change:
        last, gap = _gap(change.connection)
        # Of several that see the same gap, one moves things on.
        if gap > outage_after and _note(change.connection, last, last + gap):
            _move_on(change, last, gap)


def _gap(connection: Connection) -> tuple[datetime, timedelta]:
    last = connection.execute(select(ledger_contact.c.at)).scalar_one()
    return last, latest_time(connection) - last


def _note(connection: Connection, last: datetime, now: datetime) -> bool:
    is_unchanged = (ledger_contact.c.id == 1) & (ledger_contact.c.at == last)
    return connection.execute(update(ledger_contact).where(is_unchanged).values(at=now)).rowcount == 1


def _move_on(change: Change, last: datetime, gap: timedelta) -> None:
    """Submissions first, then attempts: the order in which a renewal takes the same rows."""
    connection = change.connection
    columns = (submissions.c.gang_id, submissions.c.submission, submissions.c.state_since)
    live = connection.execute(select(*columns).where(submissions.c.ended_at.is_(None))).all()
    moved = {
        # What happened after contact was last noted has not been going on for the whole gap.
        (row.gang_id, row.submission): {
            "state_since": min(row.state_since + gap, last + gap),
            "version": change.version,
        }
        for row in live
    }
    update_each(connection, submissions, columns[:2], moved)
    for row in connection.execute(select(attempts).where(attempts.c.ended_at.is_(None))).all():
        _extend(connection, row, attempts.c.lease_expires_at, row.lease_expires_at, gap)
        _extend(connection, row, attempts.c.start_by, row.start_by, gap)
        # The clock of a start counts from here.
        _extend(connection, row, attempts.c.admitted_at, row.admitted_at, min(gap, last + gap - row.admitted_at))


def _extend(
    connection: Connection, row: SubmissionRow, column: Column[datetime], at: datetime | None, gap: timedelta
) -> None:
    if at is None:
        return
    connection.execute(
        update(attempts)
        .where(
            attempts.c.gang_id == row.gang_id,
            attempts.c.submission == row.submission,
            attempts.c.attempt == row.attempt,
            column == at,  # renewed in between: nothing to extend
        )
        .values({column: at + gap})
    )
