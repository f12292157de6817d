"""Every implementation of a contract, as fixtures that run a test once for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gang_ledgers.ledger import Ledger
from gang_ledgers.memory import MemoryDatabase
from gang_ledgers.sql import SqlLedger, Timing
from gang_ledgers.sql_engine import open_engine
from model_registry.registry import ModelRegistry
from model_registry.sql import SqlModelRegistry
from tests.builders import a_node_record
from tests.postgres_fixture import new_database
from tests.postgres_fixture import postgres_server as postgres_server

Opens = Callable[..., Ledger]


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    return database_url_of(request.param, request, tmp_path)


def database_url_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return new_database(request.getfixturevalue("postgres_server"))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opens]:
    """Opens ledgers over one database, each as another process would."""
    opened: list[SqlLedger] = []
    memory = MemoryDatabase()
    url = "" if request.param == "memory" else database_url_of(request.param, request, tmp_path)

    def opens(**given: object) -> Ledger:
        timing = Timing(**given)  # type: ignore[arg-type] # any field
        runs_dir = tmp_path / "runs"
        opened.append(
            SqlLedger(url, runs_dir=runs_dir, timing=timing)
            if url
            else memory.open_ledger(runs_dir=runs_dir, timing=timing)
        )
        return opened[-1]

    yield opens
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Opens) -> Ledger:
    """A ledger with one node of two CPUs."""
    ledger = open_ledger()
    ledger.register_node(a_node_record())
    return ledger


@pytest.fixture
def registry(database_url: str) -> Iterator[ModelRegistry]:
    """An empty registry."""
    registry = SqlModelRegistry(open_engine(database_url))
    yield registry
    registry.close()
