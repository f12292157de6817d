"""The try-lock of the tick: held by one process at a time, let go by a dead one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import Engine, or_, text, update

from gang_ledgers.sql_engine import is_postgresql, latest_time, unavailable_as_ours, writing
from gang_ledgers.sql_tables import tick_lock

_TICK_LOCK = 7_402_511_002
# SQLite: how long the lock of a process that died stays taken; a tick takes well under a second.
_HELD_AT_MOST = timedelta(seconds=30)


@contextmanager
def try_tick_lock(engine: Engine) -> Iterator[bool]:
    """Yields whether the lock was taken; never waits."""
    if is_postgresql(engine):
        with _advisory(engine) as is_taken:
            yield is_taken
        return
    holder = uuid.uuid4().hex
    is_taken = _take_row(engine, holder)
    try:
        yield is_taken
    finally:
        if is_taken:
            with writing(engine) as connection:
                connection.execute(update(tick_lock).where(tick_lock.c.holder == holder).values(holder=""))


@contextmanager
def _advisory(engine: Engine) -> Iterator[bool]:
    """A session lock on a connection of its own: the server lets it go when the process or the connection dies."""
    with unavailable_as_ours():
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    with connection:
        with unavailable_as_ours():
            is_taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _TICK_LOCK}).scalar_one()
        try:
            yield bool(is_taken)
        finally:
            if is_taken:
                with unavailable_as_ours():
                    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _TICK_LOCK})


def _take_row(engine: Engine, holder: str) -> bool:
    with writing(engine) as connection:
        now = latest_time(connection)
        is_free = or_(tick_lock.c.holder == "", tick_lock.c.expires_at <= now)
        taken = update(tick_lock).where(tick_lock.c.id == 1, is_free)
        return connection.execute(taken.values(holder=holder, expires_at=now + _HELD_AT_MOST)).rowcount == 1
