"""One change of the ledger: a transaction that waits for the one before it, and what all changes write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, and_, update

from gang_ledgers.ledger import StaleSnapshot
from gang_ledgers.sql_bulk import delete_each, insert_all, update_each, without_answers
from gang_ledgers.sql_codec import encode_mapping
from gang_ledgers.sql_engine import as_utc, clock, writing
from gang_ledgers.sql_rows import SubmissionRow, clocks_of
from gang_ledgers.sql_tables import attempts, history, ledger_version, outbox, submissions, task_runs
from gang_scheduler.clocks import advance
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import ENDED, Clock, GangState

_SUBMISSION = (submissions.c.gang_id, submissions.c.submission)
_ATTEMPT = (attempts.c.gang_id, attempts.c.submission, attempts.c.attempt)
_ACTS = (outbox.c.gang_id, outbox.c.submission, outbox.c.attempt)  # all of one attempt
_ACT = (*_ACTS, outbox.c.kind)


@dataclass(slots=True)
class Change:
    """An open change; `now` is the database's time, later than that of every change before it.

    What it writes is gathered, and sent by `flush` in a few statements, however many gangs it is about.
    """

    connection: Connection
    now: datetime
    version: int
    _admitted: dict[AttemptKey, dict[str, Any]] = field(default_factory=dict)
    _submissions: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    _attempts: dict[AttemptKey, dict[str, Any]] = field(default_factory=dict)
    _taken_back: dict[tuple[Any, ...], None] = field(default_factory=dict)
    _put_out: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    _told: list[dict[str, Any]] = field(default_factory=list)
    _new_tasks: dict[str, str] = field(default_factory=dict)
    _known_tasks: dict[str, str] = field(default_factory=dict)

    def tell(self, key: AttemptKey, event: str, sentence: str, **details: object) -> None:
        """Add a row to the history."""
        self._told.append(
            {
                "at": self.now,
                "gang_id": key.gang_id,
                "submission": key.submission,
                "attempt": key.attempt,
                "event": event,
                "sentence": sentence,
                "details": encode_mapping(details),
            }
        )

    def set(self, row: SubmissionRow, **values: Any) -> None:
        """Write columns of the submission; watchers see a new `change` number."""
        self._submissions.setdefault((row.gang_id, row.submission), {}).update(values)

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

    def add_attempt(self, key: AttemptKey, **values: Any) -> None:
        """Add a new attempt."""
        names = {"gang_id": key.gang_id, "submission": key.submission, "attempt": key.attempt}
        self._admitted[key] = names | values

    def set_attempt(self, key: AttemptKey, **values: Any) -> None:
        """Write columns of the attempt."""
        self._attempts.setdefault(key, {}).update(values)

    def put_out(self, kind: str, key: AttemptKey, pool: str, host_id: str) -> None:
        """Put an act into the outbox; the same act for the same attempt lies there only once."""
        act = {"gang_id": key.gang_id, "submission": key.submission, "attempt": key.attempt, "kind": kind}
        if key not in self._admitted:  # of a new attempt nothing lies there yet
            self._taken_back[tuple(act.values())] = None
        self._put_out[tuple(act.values())] = {**act, "pool": pool, "host_id": host_id, "tries": 0}

    def take_back(self, key: AttemptKey, kind: str | None = None) -> None:
        """Remove what is still to be done for the attempt, or one kind of it."""
        acts = (key.gang_id, key.submission, key.attempt)
        self._taken_back[acts if kind is None else (*acts, kind)] = None
        for act in [act for act in self._put_out if act[:3] == acts and kind in (None, act[3])]:
            del self._put_out[act]

    def learn(self, task: str, runs: str, *, is_new: bool) -> None:
        """Write what past runs of a task took; `is_new` if nothing is known of it yet."""
        (self._new_tasks if is_new else self._known_tasks)[task] = runs

    def flush(self) -> None:
        """Send what was gathered; submissions before attempts, the order in which a renewal takes the same rows."""
        for values in self._submissions.values():
            values["version"] = self.version
        with without_answers(self.connection):
            self._send()
        for sent in (
            self._submissions,
            self._admitted,
            self._attempts,
            self._taken_back,
            self._put_out,
            self._told,
            self._new_tasks,
            self._known_tasks,
        ):
            sent.clear()

    def _send(self) -> None:
        update_each(self.connection, submissions, _SUBMISSION, self._submissions, raised=(submissions.c.change,))
        insert_all(self.connection, attempts, list(self._admitted.values()))
        update_each(
            self.connection,
            attempts,
            _ATTEMPT,
            {(key.gang_id, key.submission, key.attempt): values for key, values in self._attempts.items()},
        )
        for key in (_ACTS, _ACT):
            delete_each(self.connection, outbox, key, [act for act in self._taken_back if len(act) == len(key)])
        insert_all(self.connection, outbox, list(self._put_out.values()))
        insert_all(self.connection, history, self._told)
        version = self.version
        insert_all(
            self.connection,
            task_runs,
            [{"task_key": task, "runs": runs, "version": version} for task, runs in self._new_tasks.items()],
        )
        known = {(task,): {"runs": runs, "version": version} for task, runs in self._known_tasks.items()}
        update_each(self.connection, task_runs, (task_runs.c.task_key,), known)


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
        raised = raise_version.values(version=ledger_version.c.version + 1)
        found = connection.execute(raised.returning(ledger_version.c.version, clock(connection))).one_or_none()
        if found is None:
            raise StaleSnapshot(f"planned on version {expected_version}, and the ledger has changed since")
        change = Change(connection, as_utc(found[1]), found[0])
        yield change
        change.flush()
