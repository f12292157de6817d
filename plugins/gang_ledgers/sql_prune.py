"""Forgets what ended long ago, in small parts, so that nobody waits for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, and_, delete, exists, or_, select

from gang_ledgers.sql_bulk import MOST_KEYS, delete_each, in_parts
from gang_ledgers.sql_engine import latest_time, writing
from gang_ledgers.sql_tables import attempts, history, submissions
from gang_scheduler.gang_state import GangState

_SUBMISSION = ("gang_id", "submission")


def prune(engine: Engine, keep: timedelta) -> int:
    """Remove the history of submissions that ended longer ago than that, and those that nobody can come back to."""
    removed = 0
    while part := _prune_history(engine, keep):
        removed += part
    while part := _prune_submissions(engine, keep):
        removed += part
    return removed


def _prune_history(engine: Engine, keep: timedelta) -> int:
    with writing(engine) as connection:
        is_of_it = and_(history.c.gang_id == submissions.c.gang_id, history.c.submission == submissions.c.submission)
        query = select(history.c.number).join(submissions, is_of_it).where(_ended_before(connection, keep))
        numbers = list(connection.execute(query.limit(MOST_KEYS)).scalars())
        for part in in_parts(numbers):
            connection.execute(delete(history).where(history.c.number.in_(part)))
        return len(numbers)


def _prune_submissions(engine: Engine, keep: timedelta) -> int:
    """Their attempts first: a submission without them is found again, should this stop half-way."""
    with writing(engine) as connection:
        query = select(submissions.c.gang_id, submissions.c.submission)
        query = query.where(_ended_before(connection, keep), _is_older_one(), _gives_nothing())
        keys = [(row.gang_id, row.submission) for row in connection.execute(query.limit(MOST_KEYS))]
        for table in (attempts, submissions):
            delete_each(connection, table, [table.c[name] for name in _SUBMISSION], keys)
        return len(keys)


def _ended_before(connection: Connection, keep: timedelta) -> Any:
    return submissions.c.ended_at < latest_time(connection) - keep


def _is_older_one() -> Any:
    newer = submissions.alias("newer")
    return exists().where(newer.c.gang_id == submissions.c.gang_id, newer.c.submission > submissions.c.submission)


def _gives_nothing() -> Any:
    """True of those whose result nobody can take over, and whose checkpoints nobody can resume."""
    has_done_it = and_(submissions.c.state == GangState.SUCCEEDED.value, submissions.c.reused_from == "")
    has_saved = exists().where(
        attempts.c.gang_id == submissions.c.gang_id,
        attempts.c.submission == submissions.c.submission,
        attempts.c.committed_step.is_not(None),
    )
    return ~or_(has_done_it, has_saved)
