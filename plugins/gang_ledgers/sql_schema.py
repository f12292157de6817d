"""Creates the tables, brings older ones up to date, and refuses those that a newer version wrote."""

from __future__ import annotations

import logging

from sqlalchemy import Connection, Engine, inspect, select, text

from gang_ledgers.ledger import NewerSchema
from gang_ledgers.sql_engine import is_postgresql, reading, writing
from gang_ledgers.sql_tables import SCHEMA_VERSION, ledger_schema

# Guards creation and migration on PostgreSQL; on SQLite the transaction holds the whole database.
_MIGRATION_LOCK = 7_402_511_001

log = logging.getLogger(__name__)


def ensure_schema(engine: Engine) -> None:
    """Create or migrate what is there; nothing is written if the database is of a newer version.

    Of several processes that do so at once, one migrates, and the others wait for it.

    Raises:
        NewerSchema: names both versions.
    """
    with reading(engine) as connection:
        if _is_current(_version(connection)):
            return
    with writing(engine) as connection:
        if is_postgresql(connection):
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        found = _version(connection)
        if not _is_current(found):
            from gang_ledgers.migrations.upgrade import upgrade  # most processes never need Alembic

            upgrade(connection, found)
            if found is not None:
                log.warning("the ledger's tables were brought from version %s to %s", found, SCHEMA_VERSION)


def _version(connection: Connection) -> int | None:
    if not inspect(connection).has_table(ledger_schema.name):
        return None
    version: int = connection.execute(select(ledger_schema.c.version)).scalar_one()
    return version


def _is_current(found: int | None) -> bool:
    if found is not None and found > SCHEMA_VERSION:
        raise NewerSchema(
            f"the ledger's schema is version {found}, and this Phalanx knows versions up to {SCHEMA_VERSION}; "
            "nothing was written. Use the newer Phalanx that made it, or another database"
        )
    return found == SCHEMA_VERSION
