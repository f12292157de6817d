"""The registry's tables; they lie in the ledger's database, and bear a schema version of their own."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from model_registry.registry import NewerRegistry

SCHEMA_VERSION = 1
_CREATION_LOCK = 7_402_511_003

metadata = MetaData()
# SQLite numbers rows by itself only in a column that is exactly INTEGER.
_Number = BigInteger().with_variant(Integer(), "sqlite")
_Time = DateTime(timezone=True)

registry_schema = Table("registry_schema", metadata, Column("version", Integer, nullable=False))

# One row. Registering and moving raise it first, and so come one after the other.
registry_version = Table(
    "registry_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", _Number, nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("model_id", _Number, primary_key=True, autoincrement=True),
    Column("name", String(250), nullable=False),
    Column("digest", String(128), nullable=False),
    Column("gang_id", String(1000), nullable=False),
    Column("dag_id", String(250), nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("data_from", _Time, nullable=False),
    Column("data_until", _Time, nullable=False),
    Column("seen_until", _Time, nullable=False),
    Column("uri", Text, nullable=False),
    Column("model_digest", String(128), nullable=False),
    Column("code_version", String(250), nullable=False),
    Column("metrics", Text, nullable=False),
    Column("created_at", _Time, nullable=False),
    UniqueConstraint("name", "run_id", "digest", "model_digest", name="models_once"),
)

champions = Table(
    "champions",
    metadata,
    Column("name", String(250), primary_key=True),
    Column("model_id", _Number, nullable=False),
    Column("version", Integer, nullable=False),
)

champion_moves = Table(
    "champion_moves",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("name", String(250), nullable=False),
    Column("from_model", _Number),
    Column("to_model", _Number, nullable=False),
    Column("at", _Time, nullable=False),
    Column("run", String(250), nullable=False),
    Column("who", String(250), nullable=False),
    Column("why", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    Index("champion_moves_by_name", "name", "number"),
)


def ensure_schema(engine: Engine) -> None:
    """Create what is missing; nothing is written if the registry is of a newer version.

    Raises:
        NewerRegistry: names both versions.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # two creators at once may both fail there
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})
        if inspect(connection).has_table(registry_schema.name):
            found = connection.execute(select(registry_schema.c.version)).scalar_one()
            if found > SCHEMA_VERSION:
                raise NewerRegistry(
                    f"the model registry's schema is version {found}, and this Phalanx knows versions up to "
                    f"{SCHEMA_VERSION}; nothing was written. Use the newer Phalanx that made it, or another database"
                )
            return
        metadata.create_all(connection)
        connection.execute(insert(registry_schema).values(version=SCHEMA_VERSION))
        connection.execute(insert(registry_version).values(id=1, version=0))
