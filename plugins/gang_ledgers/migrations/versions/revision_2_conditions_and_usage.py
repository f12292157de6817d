"""What is said of nodes, holds, usage of queues, durations of tasks, and the versions at which rows changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.DateTime(timezone=True)
_ZERO = sa.text("0")


def upgrade() -> None:
    """Add tables and columns; cordons become conditions of their nodes."""
    op.create_table(
        "conditions",
        sa.Column("pool", sa.String(100), primary_key=True),
        sa.Column("node", sa.String(253), primary_key=True),
        sa.Column("kind", sa.String(100), primary_key=True),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("effect", sa.String(10), nullable=False),
        sa.Column("who", sa.String(250), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("since", _TIME, nullable=False),
    )
    # The first version knew one kind of cordon: that of a host that goes down.
    op.execute(
        "INSERT INTO conditions (pool, node, kind, state, effect, who, why, since) "
        "SELECT pool, node, 'host closed', 'set', 'cordoned', 'its host', cordon_reason, CURRENT_TIMESTAMP "
        "FROM nodes WHERE is_cordoned"
    )
    op.drop_column("nodes", "is_cordoned")
    op.drop_column("nodes", "cordon_reason")
    op.add_column("nodes", sa.Column("facts", sa.Text, nullable=False, server_default="{}"))
    op.add_column("nodes", sa.Column("version", _NUMBER, nullable=False, server_default=_ZERO))
    op.create_index("nodes_by_version", "nodes", ["version"])

    op.add_column("submissions", sa.Column("is_held", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("submissions", sa.Column("held_why", sa.Text, nullable=False, server_default=""))
    op.add_column("submissions", sa.Column("version", _NUMBER, nullable=False, server_default=_ZERO))
    op.add_column("submissions", sa.Column("request_version", _NUMBER, nullable=False, server_default=_ZERO))
    op.create_index("submissions_by_version", "submissions", ["version"])

    op.add_column("attempts", sa.Column("saved_at", _TIME))
    op.add_column("attempts", sa.Column("charged_at", _TIME))
    op.execute("UPDATE attempts SET charged_at = ended_at")
    op.create_index("attempts_to_charge", "attempts", ["charged_at"])

    op.create_table(
        "queue_usage",
        sa.Column("queue", sa.String(250), primary_key=True),
        sa.Column("usage", sa.Float, nullable=False),
        sa.Column("as_of", _TIME, nullable=False),
    )
    op.create_table(
        "task_runs",
        sa.Column("task_key", sa.String(1000), primary_key=True),
        sa.Column("runs", sa.Text, nullable=False),
        sa.Column("version", _NUMBER, nullable=False),
    )
    op.create_index("task_runs_by_version", "task_runs", ["version"])
    op.execute("UPDATE ledger_schema SET version = 2")
