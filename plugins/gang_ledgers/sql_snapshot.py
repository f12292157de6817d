"""The snapshot, kept in the process and brought up to date by what has changed since the last one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, select

from gang_ledgers import sql_usage
from gang_ledgers.sql_bulk import in_parts, is_one_of
from gang_ledgers.sql_codec import PLACEMENT, REQUEST
from gang_ledgers.sql_commit import Facts
from gang_ledgers.sql_engine import reading, transaction_time
from gang_ledgers.sql_learning import Learned, learned_of, runs_since, task_key
from gang_ledgers.sql_nodes import in_order, nodes_since
from gang_ledgers.sql_rows import SubmissionRow, to_view, without_long_texts
from gang_ledgers.sql_tables import ledger_version, submissions
from gang_scheduler.gang import GangRequest, Placement
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, NodeView, Snapshot

_Key = tuple[str, int]  # gang id and submission
_BEFORE_ALL = -1


@dataclass(slots=True)
class _Kept:
    """What was read of the ledger, as of a version."""

    version: int = _BEFORE_ALL
    views: dict[_Key, GangView] = field(default_factory=dict)
    requests: dict[_Key, tuple[int, GangRequest]] = field(default_factory=dict)  # with the version that wrote it
    shares: dict[_Key, tuple[int, float]] = field(default_factory=dict)  # of the pool, with the attempt
    of_task: dict[str, set[_Key]] = field(default_factory=dict)
    learned: dict[str, Learned | None] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)  # what the former was learned from
    hosts: dict[tuple[str, str], str] = field(default_factory=dict)
    nodes: dict[tuple[str, str], NodeView] = field(default_factory=dict)
    ordered: tuple[NodeView, ...] = ()
    capacity: dict[str, Resources] = field(default_factory=dict)


class Snapshots:
    """Takes snapshots of one ledger; any thread may, and a forked child starts anew."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept = _Kept()

    def take(self, half_life: timedelta) -> Snapshot:
        """The ledger as it is now, with each queue's usage."""
        if self._pid != os.getpid():
            self._forget()
        with self._lock:
            with reading(self._engine) as connection:
                now = transaction_time(connection)
                version, is_to_be_charged = self._bring_up_to_date(connection)
                queues = () if is_to_be_charged else self._queues(connection, now, half_life)
            kept = self._kept
            if is_to_be_charged:
                sql_usage.charge_ended(self._engine, half_life, kept.capacity)
                with reading(self._engine) as connection:
                    queues = self._queues(connection, now, half_life)
            return Snapshot(now, version, kept.ordered, tuple(kept.views.values()), queues=queues)

    def facts(self, version: int) -> Facts | None:
        """What was read of that version; to be asked by who holds it, as nobody can read a newer one meanwhile."""
        kept = self._kept
        return Facts(kept.hosts, kept.runs) if kept.version == version and self._pid == os.getpid() else None

    def _bring_up_to_date(self, connection: Connection) -> tuple[int, bool]:
        """The version, and whether attempts have ended whose use is in nobody's usage yet."""
        version: int = connection.execute(select(ledger_version.c.version)).scalar_one()
        if version < self._kept.version:  # another database, or an older copy of it, is there now
            self._kept = _Kept()
        kept = self._kept
        if version != kept.version:
            # Should it fail half-way, the next one starts anew.
            self._kept = _Kept()
            _refresh(kept, connection)
            kept.version, self._kept = version, kept
        return version, _renew(kept, connection)

    def _queues(self, connection: Connection, now: datetime, half_life: timedelta) -> tuple[QueueView, ...]:
        usage = sql_usage.usage_by_queue(connection, now, half_life, _uses(self._kept, now))
        return tuple(QueueView(queue, usage=used) for queue, used in sorted(usage.items()))


def _refresh(kept: _Kept, connection: Connection) -> None:
    are_new = False
    for record in nodes_since(connection, kept.version):
        name = record.node.pool, record.node.node
        kept.nodes[name], kept.hosts[name] = record.node, record.host_id
        are_new = True
    if are_new:
        kept.ordered = in_order(kept.nodes.values())
        kept.capacity = sql_usage.capacity_of(kept.ordered)
        kept.shares.clear()
    runs = runs_since(connection, kept.version)
    learned = {task: learned_of(said) for task, said in runs.items()}
    kept.runs |= runs
    kept.learned |= learned
    for row in _changed(kept, connection):
        _take_over(kept, row)
    for task in learned:
        for key in kept.of_task.get(task, ()):
            kept.views[key] = _with_learned(kept, kept.views[key])


def _changed(kept: _Kept, connection: Connection) -> Iterable[SubmissionRow]:
    """Rows that have changed; the first time only those that live."""
    query = without_long_texts()
    if kept.version == _BEFORE_ALL:
        query = query.where(submissions.c.ended_at.is_(None))
    else:
        query = query.where(submissions.c.version > kept.version)
    rows = connection.execute(query).all()
    _read_requests(kept, connection, [row for row in rows if row.ended_at is None])
    return rows


def _read_requests(kept: _Kept, connection: Connection, rows: list[SubmissionRow]) -> None:
    missing = {
        (row.gang_id, row.submission): row.request_version
        for row in rows
        if kept.requests.get((row.gang_id, row.submission), (_BEFORE_ALL,))[0] != row.request_version
    }
    columns = (submissions.c.gang_id, submissions.c.submission, submissions.c.request)
    for part in in_parts(list({gang_id for gang_id, _ in missing})):
        for row in connection.execute(select(*columns).where(is_one_of(connection, submissions.c.gang_id, part))):
            key = row.gang_id, row.submission
            if key in missing:
                kept.requests[key] = missing[key], REQUEST.validate_json(row.request)


def _take_over(kept: _Kept, row: SubmissionRow) -> None:
    key = row.gang_id, row.submission
    before = kept.views.get(key)
    if row.ended_at is not None:
        if before is not None:
            del kept.views[key]
            kept.requests.pop(key, None)
            kept.shares.pop(key, None)
            kept.of_task[_task_of(before.request)].discard(key)
        return
    request = kept.requests[key][1]
    view = to_view(row, request, _placement(row, before))
    kept.of_task.setdefault(_task_of(request), set()).add(key)
    kept.views[key] = _with_learned(kept, view)


def _placement(row: SubmissionRow, before: GangView | None) -> Placement | None:
    if row.a_placement is None:
        return None
    if before is not None and before.attempt == row.attempt and before.placement is not None:
        return before.placement
    return PLACEMENT.validate_json(row.a_placement)


def _task_of(request: GangRequest) -> str:
    return task_key(request.gang_id, request.dag_id)


def _with_learned(kept: _Kept, view: GangView) -> GangView:
    learned = kept.learned.get(_task_of(view.request))
    if learned is None:
        return view if view.learned_duration is None else replace(view, learned_duration=None, learned_error=None)
    return replace(view, learned_duration=learned.duration, learned_error=learned.error)


def _renew(kept: _Kept, connection: Connection) -> bool:
    """Take over what supervisors write without a change; True if an attempt has ended and is not yet charged."""
    has_ended = False
    for found in sql_usage.uncharged(connection):
        has_ended = has_ended or found.until is not None
        key = found.gang_id, found.submission
        view = kept.views.get(key)
        if view is None or view.attempt != found.attempt:
            continue
        if (view.lease_expires_at, view.saved_at) != (found.lease_expires_at, found.saved_at):
            kept.views[key] = replace(view, lease_expires_at=found.lease_expires_at, saved_at=found.saved_at)
    return has_ended


def _uses(kept: _Kept, now: datetime) -> Iterator[sql_usage.Use]:
    """What gangs hold at this moment, from when they were given it."""
    for key, view in kept.views.items():
        if not view.holds_capacity or view.placement is None or view.admitted_at is None:
            continue
        attempt, share = kept.shares.get(key, (_BEFORE_ALL, 0.0))
        if attempt != view.attempt:
            share = sql_usage.share_of(view.request, view.placement, kept.capacity)
            kept.shares[key] = view.attempt, share
        yield sql_usage.Use(view.request.gang_queue, share, view.admitted_at, now)
