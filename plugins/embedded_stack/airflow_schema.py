"""Airflow's tables: migrated when they are not those of the installed Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import psycopg

from embedded_stack.databases import plain
from embedded_stack.errors import PartFailed
from embedded_stack.part import python, run_once
from embedded_stack.state_folder import StateFolder, read_json, write_json


def migrate(folder: StateFolder, database_url: str, environment: Mapping[str, str]) -> bool:
    """Bring the tables up to the installed Airflow; False if they are there already.

    Raises:
        PartFailed: the migration failed.
    """
    record = folder.airflow / "schema.json"
    installed = version("apache-airflow-core")
    wanted = {"airflow": installed, "revision": _revision(database_url)}
    if wanted["revision"] and read_json(record) == wanted:
        return False
    log = folder.logs / "migrate.log"
    exit_code = run_once(python("airflow", "db", "migrate"), environment, log, folder.airflow)
    if exit_code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise PartFailed("airflow db migrate", f"it ended with exit code {exit_code}", log, tail, "")
    write_json(record, {"airflow": installed, "revision": _revision(database_url)})
    return True


def _revision(database_url: str) -> str | None:
    with psycopg.connect(plain(database_url), connect_timeout=10) as connection:
        if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
