"""A change of a submission or an attempt rewrites its row only, and no index beside it."""

from __future__ import annotations

from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Ranges of pages instead of each row by version, digests without the state, and room in pages for changed rows."""
    op.drop_index("submissions_by_digest", "submissions")
    op.create_index("submissions_by_digest", "submissions", ["digest"])
    if op.get_context().dialect.name == "postgresql":
        op.drop_index("submissions_by_version", "submissions")
        op.create_index(
            "submissions_by_version",
            "submissions",
            ["version"],
            postgresql_using="brin",
            postgresql_with={"pages_per_range": 4, "autosummarize": "on"},
        )
        for table in ("submissions", "attempts"):
            op.execute(f"ALTER TABLE {table} SET (fillfactor = 70, toast_tuple_target = 256)")
    op.execute("UPDATE ledger_schema SET version = 3")
