"""Creates the tables once, and refuses a database that a newer version wrote."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Engine, insert, inspect, select, text

from gang_ledgers.ledger import NewerSchema
from gang_ledgers.sql_engine import is_postgresql, latest_time, writing
from gang_ledgers.sql_tables import SCHEMA_VERSION, ledger_contact, ledger_schema, ledger_version, metadata, tick_lock

# Guards the creation of tables on PostgreSQL, where two creators at once may both fail.
_CREATION_LOCK = 7_402_511_001


def ensure_schema(engine: Engine) -> None:
    """Create what is missing; nothing is written if the database is of a newer version.

    Raises:
        NewerSchema: names both versions.
    """
    with writing(engine) as connection:
        if is_postgresql(connection):
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})
        if inspect(connection).has_table(ledger_schema.name):
            found = connection.execute(select(ledger_schema.c.version)).scalar_one()
            if found > SCHEMA_VERSION:
                raise NewerSchema(
                    f"the ledger's schema is version {found}, and this Phalanx knows versions up to {SCHEMA_VERSION}; "
                    "nothing was written. Use the newer Phalanx that made it, or another database"
                )
            return
        metadata.create_all(connection)
        connection.execute(insert(ledger_schema).values(version=SCHEMA_VERSION))
        connection.execute(insert(ledger_version).values(id=1, version=0))
        connection.execute(insert(ledger_contact).values(id=1, at=latest_time(connection)))
        connection.execute(insert(tick_lock).values(id=1, holder="", expires_at=datetime(2000, 1, 1, tzinfo=UTC)))
