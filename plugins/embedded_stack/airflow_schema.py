"""Airflow's tables: migrated when they are not those of the installed Airflow."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import psycopg

from embedded_stack.child import Child, Command, describe_exit
from embedded_stack.databases import plain
from embedded_stack.errors import PartFailed, StackError
from embedded_stack.state_folder import StateFolder, read_json, write_json


def migrate(folder: StateFolder, database_url: str, command: Command, spawn: Callable[[Command], Child]) -> bool:
    """Bring the tables up to the installed Airflow with `command`; False if they are there already.

    Raises:
        PartFailed: the migration failed.
        StackError: the database can't be reached.
    """
    record = folder.airflow / "schema.json"
    installed = version("apache-airflow-core")
    wanted = {"airflow": installed, "revision": _revision(database_url)}
    if wanted["revision"] and read_json(record) == wanted:
        return False
    exit_code = spawn(command).wait()
    if exit_code != 0:
        tail = "\n".join(command.log.read_text(errors="replace").splitlines()[-15:])
        raise PartFailed(command.name, f"it {describe_exit(exit_code)}", command.log, tail, "")
    write_json(record, {"airflow": installed, "revision": _revision(database_url)})
    return True


def _revision(database_url: str) -> str | None:
    try:
        opened = psycopg.connect(plain(database_url), connect_timeout=10)
    except psycopg.OperationalError as error:
        raise StackError(f"Airflow's database was not reached: {str(error).strip()}") from None
    with opened as connection:
        if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
