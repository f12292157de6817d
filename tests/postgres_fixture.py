"""A real PostgreSQL for tests: one throw-away cluster a session, one new database a test.

A conftest takes the fixtures over with
`from tests.postgres_fixture import postgres_server as postgres_server, postgres_url as postgres_url`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from pathlib import Path

import psycopg
import pytest

from embedded_stack.postgres import EmbeddedPostgres
from embedded_stack.state_folder import StateFolder

_SERVER = pytest.StashKey[EmbeddedPostgres]()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> EmbeddedPostgres:
    """The session's server; started once, however many conftests name this fixture."""
    config = request.config
    if _SERVER in config.stash:
        return config.stash[_SERVER]
    # Not under pytest's own folders, which only their owner may enter: PostgreSQL runs as another user than root.
    home = Path(tempfile.mkdtemp(prefix="phalanx-tests-postgres-"))
    home.chmod(0o755)
    folder = StateFolder.at(home)
    folder.logs.mkdir()
    server = EmbeddedPostgres(folder, password=uuid.uuid4().hex)
    part = server.start()
    with psycopg.connect(server.url(), autocommit=True) as admin:  # a test's data need not outlive a power cut
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            admin.execute(f"ALTER SYSTEM SET {setting} = off")
        admin.execute("SELECT pg_reload_conf()")

    def end() -> None:
        part.ask_to_end()
        part.wait(time.monotonic() + 10)
        shutil.rmtree(home, ignore_errors=True)

    config.add_cleanup(end)
    config.stash[_SERVER] = server
    return server


@pytest.fixture
def postgres_url(postgres_server: EmbeddedPostgres) -> str:
    """The SQLAlchemy URL of a new, empty database."""
    return new_database(postgres_server)


def new_database(server: EmbeddedPostgres) -> str:
    """Make a database and return its SQLAlchemy URL."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return server.url("postgresql+psycopg").removesuffix("/postgres") + f"/{name}"
