"""Runs the migrations on an open transaction, without any file of settings."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

# Not Alembic's own name for it, so that another program's tables may lie beside ours.
VERSION_TABLE = "ledger_migration"


def upgrade(connection: Connection, found: int | None) -> None:
    """Bring the tables to the newest version; `found` is theirs now (`ledger_schema`), None if there are none.

    The first version was made before there were migrations, and is taken for revision 1.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    if found == 1:
        command.stamp(config, "1")
    command.upgrade(config, "head")
