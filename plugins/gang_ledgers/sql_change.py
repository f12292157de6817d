"""One change of the ledger: a transaction that waits for the one before it, and what all changes write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, and_, delete, insert, update

from gang_ledgers.ledger import StaleSnapshot
from gang_ledgers.sql_codec import encode_mapping
from gang_ledgers.sql_engine import latest_time, writing
from gang_ledgers.sql_rows import SubmissionRow, clocks_of
from gang_ledgers.sql_tables import attempts, history, ledger_version, outbox, submissions
from gang_scheduler.clocks import advance
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import ENDED, Clock, GangState


@dataclass(frozen=True, slots=True)
class Change:
    """An open change; `now` is the database's time, later than that of every change before it."""

    connection: Connection
    now: datetime
    version: int

    def tell(self, key: AttemptKey, event: str, sentence: str, **details: object) -> None:
        """Add a row to the history."""
        self.connection.execute(
            insert(history).values(
                at=self.now,
                gang_id=key.gang_id,
                submission=key.submission,
                attempt=key.attempt,
                event=event,
                sentence=sentence,
                details=encode_mapping(details),
            )
        )

    def set(self, row: SubmissionRow, **values: Any) -> None:
        """Write columns of the submission; watchers see a new `change` number."""
        self.connection.execute(
            update(submissions)
            .where(submissions.c.gang_id == row.gang_id, submissions.c.submission == row.submission)
            .values(change=submissions.c.change + 1, **values)
        )

    def enter(self, row: SubmissionRow, state: GangState, **values: Any) -> None:
        """Let the submission enter a state; the clock of the one that it leaves is stopped and added up."""
        spent = advance(clocks_of(row), GangState(row.state), row.state_since, self.now)
        self.set(
            row,
            state=state.value,
            state_since=self.now,
            ended_at=self.now if state in ENDED else None,
            **{f"{clock.value}_s": spent[clock].total_seconds() for clock in Clock},
            **values,
        )

    def set_attempt(self, key: AttemptKey, **values: Any) -> None:
        """Write columns of the attempt."""
        self.connection.execute(update(attempts).where(is_attempt(key)).values(**values))

    def put_out(self, kind: str, key: AttemptKey, pool: str, host_id: str) -> None:
        """Put an act into the outbox; the same act for the same attempt lies there only once."""
        self.take_back(key, kind)
        self.connection.execute(
            insert(outbox).values(
                kind=kind,
                gang_id=key.gang_id,
                submission=key.submission,
                attempt=key.attempt,
                pool=pool,
                host_id=host_id,
            )
        )

    def take_back(self, key: AttemptKey, kind: str | None = None) -> None:
        """Remove what is still to be done for the attempt, or one kind of it."""
        is_meant = and_(
            outbox.c.gang_id == key.gang_id, outbox.c.submission == key.submission, outbox.c.attempt == key.attempt
        )
        if kind is not None:
            is_meant = and_(is_meant, outbox.c.kind == kind)
        self.connection.execute(delete(outbox).where(is_meant))


def is_attempt(key: AttemptKey) -> Any:
    """The condition that picks the attempt's row."""
    return and_(
        attempts.c.gang_id == key.gang_id, attempts.c.submission == key.submission, attempts.c.attempt == key.attempt
    )


@contextmanager
def changing(engine: Engine, expected_version: int | None = None) -> Iterator[Change]:
    """A change; it holds the version row, so changes come one after the other over all processes.

    Raises:
        StaleSnapshot: the version is not the expected one any more.
    """
    with writing(engine) as connection:
        raise_version = update(ledger_version).where(ledger_version.c.id == 1)
        if expected_version is not None:
            raise_version = raise_version.where(ledger_version.c.version == expected_version)
        raised = raise_version.values(version=ledger_version.c.version + 1).returning(ledger_version.c.version)
        version = connection.execute(raised).scalar_one_or_none()
        if version is None:
            raise StaleSnapshot(f"planned on version {expected_version}, and the ledger has changed since")
        yield Change(connection, latest_time(connection), version)
