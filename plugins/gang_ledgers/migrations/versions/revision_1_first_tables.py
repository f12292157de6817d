"""The tables of the first version."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from gang_ledgers.sql_engine import latest_time

revision = "1"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create them, with the rows that are there from the start."""
    op.create_table("ledger_schema", sa.Column("version", sa.Integer, nullable=False))
    op.create_table(
        "ledger_version",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", _NUMBER, nullable=False),
    )
    op.create_table(
        "ledger_contact",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", _TIME, nullable=False),
    )
    op.create_table(
        "tick_lock",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )
    op.create_table(
        "nodes",
        sa.Column("pool", sa.String(100), primary_key=True),
        sa.Column("node", sa.String(253), primary_key=True),
        sa.Column("host_id", sa.String(253), nullable=False),
        sa.Column("cpus", sa.Float, nullable=False),
        sa.Column("memory_gib", sa.Float, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("is_cordoned", sa.Boolean, nullable=False),
        sa.Column("cordon_reason", sa.Text, nullable=False),
    )
    op.create_table(
        "submissions",
        sa.Column("gang_id", sa.String(1000), primary_key=True),
        sa.Column("submission", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("digest", sa.String(128), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("run_dir", sa.Text, nullable=False),
        sa.Column("resume_from", sa.Text, nullable=False),
        sa.Column("reused_from", sa.Text, nullable=False),
        sa.Column("owner", sa.String(250), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("asked_with", sa.String(250), nullable=False),
        sa.Column("submitted_at", _TIME, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("state_since", _TIME, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("not_before", _TIME),
        sa.Column("wait_reason", sa.String(40), nullable=False),
        sa.Column("wait_sentence", sa.Text, nullable=False),
        sa.Column("stop_is_requested", sa.Boolean, nullable=False),
        sa.Column("is_released", sa.Boolean, nullable=False),
        sa.Column("stop_why", sa.Text, nullable=False),
        sa.Column("stop_deadline", _TIME),
        sa.Column("limit_verdict", sa.Text),
        sa.Column("verdict", sa.Text),
        sa.Column("verdict_is_pending", sa.Boolean, nullable=False),
        sa.Column("infrastructure_ends", sa.Integer, nullable=False),
        sa.Column("user_ends", sa.Integer, nullable=False),
        sa.Column("queued_s", sa.Float, nullable=False),
        sa.Column("starting_s", sa.Float, nullable=False),
        sa.Column("running_s", sa.Float, nullable=False),
        sa.Column("recovering_s", sa.Float, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("ended_at", _TIME),
        sa.Column("change", _NUMBER, nullable=False),
    )
    op.create_index("submissions_live", "submissions", ["ended_at"])
    op.create_index("submissions_by_digest", "submissions", ["digest", "state"])
    op.create_index("submissions_by_time", "submissions", ["submitted_at"])
    op.create_table(
        "attempts",
        sa.Column("gang_id", sa.String(1000), primary_key=True),
        sa.Column("submission", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("placement", sa.Text, nullable=False),
        sa.Column("host_id", sa.String(253), nullable=False),
        sa.Column("admitted_at", _TIME, nullable=False),
        sa.Column("start_by", _TIME, nullable=False),
        sa.Column("launched_at", _TIME),
        sa.Column("started_at", _TIME),
        sa.Column("claimed_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.Column("lease_expires_at", _TIME),
        sa.Column("backend_ref", sa.Text, nullable=False),
        sa.Column("progress", sa.Text),
        sa.Column("committed_step", sa.Integer),
        sa.Column("end_facts", sa.Text),
        sa.Column("verdict", sa.Text),
    )
    op.create_table(
        "history",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("gang_id", sa.String(1000), nullable=False),
        sa.Column("submission", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_index("history_by_gang", "history", ["gang_id", "number"])
    op.create_table(
        "outbox",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("gang_id", sa.String(1000), nullable=False),
        sa.Column("submission", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("pool", sa.String(100), nullable=False),
        sa.Column("host_id", sa.String(253), nullable=False),
        sa.Column("claimed_until", _TIME),
        sa.Column("tries", sa.Integer, nullable=False),
    )
    _insert_first_rows()


def _insert_first_rows() -> None:
    connection = op.get_bind()
    tables = sa.MetaData()
    tables.reflect(connection, only=["ledger_schema", "ledger_version", "ledger_contact", "tick_lock"])
    now, long_ago = latest_time(connection), datetime(2000, 1, 1, tzinfo=UTC)
    if connection.dialect.name != "postgresql":  # which keeps no zone
        now, long_ago = now.replace(tzinfo=None), long_ago.replace(tzinfo=None)
    connection.execute(sa.insert(tables.tables["ledger_schema"]).values(version=1))
    connection.execute(sa.insert(tables.tables["ledger_version"]).values(id=1, version=0))
    connection.execute(sa.insert(tables.tables["ledger_contact"]).values(id=1, at=now))
    connection.execute(sa.insert(tables.tables["tick_lock"]).values(id=1, holder="", expires_at=long_ago))
