"""The ledger's tables."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
    text,
)

SCHEMA_VERSION = 3  # the newest file in migrations/versions
metadata = MetaData()

# SQLite numbers rows by itself only in a column that is exactly INTEGER.
_Number = BigInteger().with_variant(Integer(), "sqlite")


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC instant on every database; SQLite keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


ledger_schema = Table("ledger_schema", metadata, Column("version", Integer, nullable=False))

# One row. Every change that a plan may depend on raises the number first, and so waits for the one before it.
ledger_version = Table(
    "ledger_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", _Number, nullable=False),
)

# One row: when a tick or a supervisor was last heard of (the outage rule).
ledger_contact = Table(
    "ledger_contact",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", UtcTime, nullable=False),
)

# One row, used where the database has no advisory locks.
tick_lock = Table(
    "tick_lock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", String(64), nullable=False, default=""),
    Column("expires_at", UtcTime, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("pool", String(100), primary_key=True),
    Column("node", String(253), primary_key=True),
    Column("host_id", String(253), nullable=False),
    Column("cpus", Float, nullable=False),
    Column("memory_gib", Float, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("facts", Text, nullable=False, server_default="{}"),  # what else is known of it (sql_nodes)
    Column("version", _Number, nullable=False, server_default=text("0")),  # the ledger's, when it last changed
    Index("nodes_by_version", "version"),
)

# What somebody says of a node; whether it may be used follows from all of them.
conditions = Table(
    "conditions",
    metadata,
    Column("pool", String(100), primary_key=True),
    Column("node", String(253), primary_key=True),
    Column("kind", String(100), primary_key=True),
    Column("state", String(10), nullable=False),
    Column("effect", String(10), nullable=False),
    Column("who", String(250), nullable=False),
    Column("why", Text, nullable=False),
    Column("since", UtcTime, nullable=False),
)

# PostgreSQL rewrites a row within its page, and leaves the indexes alone, if none that knows single rows holds a column
# that has changed and the page has room (heap-only tuples). So versions, which every change raises, are indexed by
# ranges of pages: few of those have changed since a version that was read a moment ago. Long texts, which stay as they
# are, lie apart, so that a page holds many rows.
_ROOM = {"fillfactor": 70, "toast_tuple_target": 256}
_BY_VERSION = Index(
    "submissions_by_version",
    "version",
    postgresql_using="brin",
    postgresql_with={"pages_per_range": 4, "autosummarize": "on"},
)

submissions = Table(
    "submissions",
    metadata,
    Column("gang_id", String(1000), primary_key=True),
    Column("submission", Integer, primary_key=True, autoincrement=False),
    Column("dag_id", String(250), nullable=False),
    Column("digest", String(128), nullable=False),
    Column("request", Text, nullable=False),
    Column("run_dir", Text, nullable=False),
    Column("resume_from", Text, nullable=False, default=""),
    Column("reused_from", Text, nullable=False, default=""),  # whose result it took over without running
    Column("owner", String(250), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("asked_with", String(250), nullable=False, default=""),
    Column("submitted_at", UtcTime, nullable=False),
    Column("state", String(20), nullable=False),
    Column("state_since", UtcTime, nullable=False),
    Column("attempt", Integer, nullable=False, default=0),
    Column("not_before", UtcTime),
    Column("wait_reason", String(40), nullable=False, default=""),
    Column("wait_sentence", Text, nullable=False, default=""),
    Column("stop_is_requested", Boolean, nullable=False, default=False),
    Column("is_released", Boolean, nullable=False, default=False),
    Column("stop_why", Text, nullable=False, default=""),
    Column("stop_deadline", UtcTime),
    Column("limit_verdict", Text),
    Column("verdict", Text),
    Column("verdict_is_pending", Boolean, nullable=False, default=False),  # not yet acted upon by a plan
    Column("infrastructure_ends", Integer, nullable=False, default=0),
    Column("user_ends", Integer, nullable=False, default=0),
    Column("queued_s", Float, nullable=False, default=0.0),
    Column("starting_s", Float, nullable=False, default=0.0),
    Column("running_s", Float, nullable=False, default=0.0),
    Column("recovering_s", Float, nullable=False, default=0.0),
    Column("result", Text, nullable=False, default="{}"),
    Column("ended_at", UtcTime),
    Column("change", _Number, nullable=False, default=1),
    Column("is_held", Boolean, nullable=False, server_default=false()),
    Column("held_why", Text, nullable=False, server_default=""),
    Column("version", _Number, nullable=False, server_default=text("0")),  # the ledger's, when it last changed
    Column("request_version", _Number, nullable=False, server_default=text("0")),  # the same, of `request`
    Index("submissions_live", "ended_at"),
    _BY_VERSION,
    Index("submissions_by_digest", "digest"),
    Index("submissions_by_time", "submitted_at"),
    postgresql_with=_ROOM,
)

attempts = Table(
    "attempts",
    metadata,
    Column("gang_id", String(1000), primary_key=True),
    Column("submission", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("placement", Text, nullable=False),
    Column("host_id", String(253), nullable=False),
    Column("admitted_at", UtcTime, nullable=False),
    Column("start_by", UtcTime, nullable=False),
    Column("launched_at", UtcTime),
    Column("started_at", UtcTime),
    Column("claimed_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("lease_expires_at", UtcTime),
    Column("backend_ref", Text, nullable=False, default=""),
    Column("progress", Text),
    Column("committed_step", Integer),
    Column("end_facts", Text),
    Column("verdict", Text),
    Column("saved_at", UtcTime),  # when `committed_step` was first seen
    Column("charged_at", UtcTime),  # when its use of the pool was added to that of its queue
    Index("attempts_to_charge", "charged_at"),
    postgresql_with=_ROOM,
)

# The use that ended attempts made of pools, decayed to `as_of`.
queue_usage = Table(
    "queue_usage",
    metadata,
    Column("queue", String(250), primary_key=True),
    Column("usage", Float, nullable=False),
    Column("as_of", UtcTime, nullable=False),
)

# How long the last runs of a task took.
task_runs = Table(
    "task_runs",
    metadata,
    Column("task_key", String(1000), primary_key=True),
    Column("runs", Text, nullable=False),  # digests and seconds, oldest first
    Column("version", _Number, nullable=False),
    Index("task_runs_by_version", "version"),
)

history = Table(
    "history",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("at", UtcTime, nullable=False),
    Column("gang_id", String(1000), nullable=False),
    Column("submission", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("event", String(40), nullable=False),
    Column("sentence", Text, nullable=False),
    Column("details", Text, nullable=False, default="{}"),
    Index("history_by_gang", "gang_id", "number"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("kind", String(10), nullable=False),
    Column("gang_id", String(1000), nullable=False),
    Column("submission", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pool", String(100), nullable=False),
    Column("host_id", String(253), nullable=False),
    Column("claimed_until", UtcTime),
    Column("tries", Integer, nullable=False, default=0),
)
