"""Connections to the ledger's database: few, short, and never shared with a forked child."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, QueuePool, create_engine, event, literal_column, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gang_ledgers.ledger import LedgerUnavailable

CONNECT_TIMEOUT_S = 3
LOCK_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 20

_open_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def open_engine(url: str) -> Engine:
    """An engine for a SQLite or PostgreSQL URL, with a small pool that checks connections before use."""
    is_sqlite = make_url(url).get_backend_name() == "sqlite"
    engine = _sqlite(url) if is_sqlite else _postgresql(url)
    _open_engines.add(engine)
    return engine


def _postgresql(url: str) -> Engine:
    options = (
        f"-c lock_timeout={LOCK_TIMEOUT_S}s -c statement_timeout={STATEMENT_TIMEOUT_S}s "
        "-c idle_in_transaction_session_timeout=60s -c timezone=UTC"
    )
    return create_engine(
        url,
        pool_size=2,
        max_overflow=4,
        pool_timeout=LOCK_TIMEOUT_S,
        pool_pre_ping=True,
        pool_recycle=600,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "phalanx", "options": options},
    )


def open_memory_engine() -> Engine:
    """An engine over a new SQLite database in memory; it is the one connection, for which threads wait in turn."""
    engine = _sqlite("sqlite://", pool_size=1, max_overflow=0)
    _open_engines.add(engine)
    return engine


def _sqlite(url: str, *, pool_size: int = 2, max_overflow: int = 8) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=LOCK_TIMEOUT_S,
        connect_args={"timeout": LOCK_TIMEOUT_S, "check_same_thread": False},
    )

    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, see `began`
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    def began(connection: Connection) -> None:
        # A transaction that reads first and writes later can fail with "locked" at once; ours take the lock first.
        is_reading = connection.get_execution_options().get("phalanx_reads", False)
        connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", began)
    return engine


def _forget_inherited_connections() -> None:
    # A forked child shares the parent's sockets: it must neither use nor close them.
    for engine in list(_open_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_inherited_connections)


def is_postgresql(engine_or_connection: Engine | Connection) -> bool:
    """True on PostgreSQL, false on SQLite; nothing else is supported."""
    return engine_or_connection.dialect.name == "postgresql"


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that may write.

    Raises:
        LedgerUnavailable: the database can't be reached, or keeps us waiting for too long.
    """
    with unavailable_as_ours(), engine.begin() as connection:
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads, and sees one moment.

    Raises:
        LedgerUnavailable: the database can't be reached.
    """
    with unavailable_as_ours(), engine.connect() as connection:
        if is_postgresql(engine):
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        else:
            connection = connection.execution_options(phalanx_reads=True)
        with connection.begin():
            yield connection


@contextmanager
def unavailable_as_ours() -> Iterator[None]:
    """Turn the driver's connection troubles into LedgerUnavailable, so that callers need not know the driver."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error, OperationalError | InterfaceError):
            raise LedgerUnavailable(f"the ledger's database does not answer: {_first_line(error)}") from error
        raise
    except PoolTimeout as error:
        raise LedgerUnavailable(f"all of this process's connections to the ledger are in use: {error}") from error


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__


def transaction_time(connection: Connection) -> datetime:
    """The database's time at which this transaction began (on SQLite: now, with milliseconds)."""
    began = literal_column("transaction_timestamp()") if is_postgresql(connection) else clock(connection)
    return as_utc(connection.execute(select(began)).scalar_one())


def latest_time(connection: Connection) -> datetime:
    """The database's time at this moment: used after a wait for a lock, so that what is written later is later."""
    return as_utc(connection.execute(select(clock(connection))).scalar_one())


def clock(connection: Connection) -> ColumnElement[Any]:
    """The same as an expression, to be had with other columns; `as_utc` reads it."""
    of_dialect = "clock_timestamp()" if is_postgresql(connection) else "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    return literal_column(of_dialect)


def as_utc(said: datetime | str) -> datetime:
    """The instant that a database's clock said."""
    if isinstance(said, datetime):
        return said.astimezone(UTC)
    return datetime.fromisoformat(said).replace(tzinfo=UTC)
