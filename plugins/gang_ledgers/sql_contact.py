"""The outage rule: time in which neither a tick nor a supervisor was heard of is not held against any lease."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Column, Connection, Engine, select, update

from gang_ledgers.sql_engine import latest_time, writing
from gang_ledgers.sql_tables import attempts, ledger_contact

_OFTEN_ENOUGH = timedelta(seconds=1)


def keep_contact(engine: Engine, outage_after: timedelta) -> None:
    """Note that somebody was heard of now; if nobody was for a while, extend every lease and start-by by that gap.

    Its transaction is its own, and held for a moment: it takes no lock that a change waits for while holding another.
    """
    with writing(engine) as connection:
        last = connection.execute(select(ledger_contact.c.at)).scalar_one()
        now = latest_time(connection)
        gap = now - last
        if gap < _OFTEN_ENOUGH:
            return
        # Of several that see the same gap, one extends.
        is_first = (ledger_contact.c.id == 1) & (ledger_contact.c.at == last)
        noted = connection.execute(update(ledger_contact).where(is_first).values(at=now))
        if noted.rowcount == 1 and gap > outage_after:
            _extend(connection, attempts.c.lease_expires_at, gap)
            _extend(connection, attempts.c.start_by, gap)


def _extend(connection: Connection, column: Column[datetime], gap: timedelta) -> None:
    query = select(attempts.c.gang_id, attempts.c.submission, attempts.c.attempt, column.label("at")).where(
        attempts.c.ended_at.is_(None), column.is_not(None)
    )
    for row in connection.execute(query).all():
        connection.execute(
            update(attempts)
            .where(
                attempts.c.gang_id == row.gang_id,
                attempts.c.submission == row.submission,
                attempts.c.attempt == row.attempt,
                column == row.at,  # renewed in between: nothing to extend
            )
            .values({column: row.at + gap})
        )
