"""The ledger in SQLite or PostgreSQL; what each call writes is in the modules beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select

from gang_ledgers import sql_attempts, sql_commit, sql_control, sql_hosts, sql_nodes, sql_outbox, sql_submit
from gang_ledgers.ledger import (
    Claim,
    Directive,
    GangRecord,
    HistoryRow,
    NodeCondition,
    NodeRecord,
    OutboxItem,
    Progress,
    Submitted,
)
from gang_ledgers.sql_change import changing
from gang_ledgers.sql_codec import decode_mapping
from gang_ledgers.sql_contact import keep_contact
from gang_ledgers.sql_engine import open_engine, reading, writing
from gang_ledgers.sql_lock import try_tick_lock
from gang_ledgers.sql_prune import prune
from gang_ledgers.sql_rows import newest, newest_of_each, to_record, view_of, with_attempt
from gang_ledgers.sql_schema import ensure_schema
from gang_ledgers.sql_snapshot import Snapshots
from gang_ledgers.sql_tables import history, submissions
from gang_scheduler.actions import Action
from gang_scheduler.gang import AttemptKey, GangRequest
from gang_scheduler.policy import DEFAULT_POLICY
from gang_scheduler.recovery import after_end
from gang_scheduler.snapshot import NodeView, Snapshot
from gang_scheduler.verdict import AttemptEnd


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things may take; leases are renewed every two seconds, so one lasts seven missed renewals."""

    lease: timedelta = timedelta(seconds=15)
    outage_after: timedelta = timedelta(seconds=5)
    claim_for: dict[str, timedelta] = field(
        default_factory=lambda: {
            "launch": timedelta(seconds=20),
            "stop": timedelta(seconds=10),
            "probe": timedelta(seconds=3),  # also how often an unknown attempt is looked at
        }
    )


class SqlLedger:
    """A ledger over SQLAlchemy; safe for many threads and processes at once, and usable after a fork."""

    def __init__(self, database: str | Engine, *, runs_dir: Path, timing: Timing | None = None) -> None:
        """Open the ledger at that URL, and create its tables or bring them up to date.

        Raises:
            NewerSchema: a newer version of Phalanx made the tables.
            LedgerUnavailable: the database does not answer.
        """
        self._runs_dir = runs_dir
        self._timing = timing or Timing()
        self._engine = open_engine(database) if isinstance(database, str) else database
        ensure_schema(self._engine)
        self._snapshots = Snapshots(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    # --- people and tasks who ask

    def submit(self, request: GangRequest, claim: Claim) -> Submitted:
        with changing(self._engine) as change:
            return sql_submit.submit(change, request, claim, self._runs_dir)

    def release(self, gang_id: str, owner: str | None, who: str, why: str) -> bool:
        with changing(self._engine) as change:
            return sql_submit.release(change, gang_id, owner, who, why)

    def hold(self, gang_id: str, who: str, why: str) -> GangRecord:
        with changing(self._engine) as change:
            sql_control.hold(change, gang_id, who, why)
        return self._known(gang_id)

    def lift_hold(self, gang_id: str, who: str, why: str) -> GangRecord:
        with changing(self._engine) as change:
            sql_control.lift_hold(change, gang_id, who, why)
        return self._known(gang_id)

    def requeue(self, gang_id: str, who: str, why: str) -> GangRecord:
        with changing(self._engine) as change:
            sql_control.requeue(change, gang_id, who, why)
        return self._known(gang_id)

    def _known(self, gang_id: str) -> GangRecord:
        record = self.state(gang_id)
        assert record is not None, f"gang '{gang_id}' was there a moment ago"
        return record

    def state(self, gang_id: str) -> GangRecord | None:
        with reading(self._engine) as connection:
            row = newest(connection, gang_id)
            return None if row is None else to_record(row)

    def states(self, gang_ids: Sequence[str]) -> dict[str, GangRecord]:
        if not gang_ids:
            return {}
        with reading(self._engine) as connection:
            rows = connection.execute(newest_of_each(list(gang_ids))).all()
            return {row.gang_id: to_record(row) for row in rows}

    def submissions(self, gang_id: str) -> list[GangRecord]:
        query = with_attempt().where(submissions.c.gang_id == gang_id).order_by(submissions.c.submission)
        with reading(self._engine) as connection:
            return [to_record(row) for row in connection.execute(query)]

    def list_gangs(self, *, live_only: bool = False, limit: int = 200) -> list[GangRecord]:
        query = with_attempt().order_by(submissions.c.submitted_at.desc(), submissions.c.gang_id).limit(limit)
        if live_only:
            query = query.where(submissions.c.ended_at.is_(None))
        with reading(self._engine) as connection:
            return [to_record(row) for row in connection.execute(query)]

    def history(self, gang_id: str | None = None) -> list[HistoryRow]:
        query = select(history).order_by(history.c.number)
        if gang_id is not None:
            query = query.where(history.c.gang_id == gang_id)
        with reading(self._engine) as connection:
            return [
                HistoryRow(
                    row.number,
                    row.at,
                    row.gang_id,
                    row.submission,
                    row.attempt,
                    row.event,
                    row.sentence,
                    decode_mapping(row.details),
                )
                for row in connection.execute(query)
            ]

    # --- the nodes

    def register_node(self, node: NodeRecord) -> None:
        with reading(self._engine) as connection:
            if sql_hosts.is_registered(connection, node):
                return
        with changing(self._engine) as change:
            sql_hosts.register(change, node)

    def nodes(self) -> list[NodeView]:
        with reading(self._engine) as connection:
            return list(sql_nodes.in_order(record.node for record in sql_nodes.nodes_since(connection, -1)))

    def set_condition(self, condition: NodeCondition) -> bool:
        with changing(self._engine) as change:
            return sql_hosts.set_condition(change, condition)

    def conditions(self) -> list[NodeCondition]:
        with reading(self._engine) as connection:
            return sql_nodes.all_conditions(connection)

    def close_host(self, host_id: str, why: str) -> list[AttemptKey]:
        with changing(self._engine) as change:
            return sql_hosts.close(change, host_id, why)

    def open_host(self, host_id: str) -> None:
        with changing(self._engine) as change:
            sql_hosts.reopen(change, host_id)

    # --- the tick

    def has_work(self) -> bool:
        with reading(self._engine) as connection:
            live = select(submissions.c.submission).where(submissions.c.ended_at.is_(None)).limit(1)
            return connection.execute(live).first() is not None

    def tick_lock(self) -> AbstractContextManager[bool]:
        return try_tick_lock(self._engine)

    def snapshot(self, usage_half_life: timedelta = DEFAULT_POLICY.usage_half_life) -> Snapshot:
        keep_contact(self._engine, self._timing.outage_after)
        return self._snapshots.take(usage_half_life)

    def queue_usage(self, half_life: timedelta = DEFAULT_POLICY.usage_half_life) -> Mapping[str, float]:
        return {queue.name: queue.usage for queue in self._snapshots.take(half_life).queues}

    def commit(self, actions: Sequence[Action], expected_version: int) -> int:
        with changing(self._engine, expected_version) as change:
            sql_commit.apply_all(change, actions, self._snapshots.facts(expected_version))
            return change.version

    def claim_outbox(self, host_id: str, limit: int = 16) -> list[OutboxItem]:
        with writing(self._engine) as connection:
            return sql_outbox.claim(connection, host_id, limit, self._timing.claim_for)

    def finish_outbox(self, number: int, *, backend_ref: str = "", error: str = "") -> None:
        with changing(self._engine) as change:
            sql_outbox.finish(change, number, backend_ref, error)

    def prune(self, keep: timedelta) -> int:
        return prune(self._engine, keep)

    # --- the supervisor of one attempt

    def start(self, key: AttemptKey, backend_ref: str) -> bool:
        keep_contact(self._engine, self._timing.outage_after)
        with changing(self._engine) as change:
            return sql_attempts.start(change, key, backend_ref, self._timing.lease)

    def renew(self, key: AttemptKey, progress: Progress | None) -> Directive:
        keep_contact(self._engine, self._timing.outage_after)
        with writing(self._engine) as connection:
            directive = sql_attempts.renew(connection, key, progress, self._timing.lease)
        if directive is not None:
            return directive
        with changing(self._engine) as change:
            return sql_attempts.renew_and_move(change, key, progress, self._timing.lease)

    def end_attempt(self, key: AttemptKey, end: AttemptEnd, result: Mapping[str, Any] | None = None) -> None:
        with changing(self._engine) as change:
            if sql_attempts.end(change, key, end, result):
                change.flush()
                # What follows is decided at once: nobody may be ticking any more.
                sql_commit.apply_all(change, [after_end(view_of(change.connection, key))])
