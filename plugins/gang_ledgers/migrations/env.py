"""Alembic's entry: it runs this file for each command, on the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context

from gang_ledgers.migrations.upgrade import VERSION_TABLE
from gang_ledgers.sql_tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
