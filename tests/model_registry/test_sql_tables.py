from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from gang_ledgers.sql import SqlLedger
from gang_ledgers.sql_engine import open_engine
from model_registry.registry import NewerRegistry
from model_registry.sql import SqlModelRegistry
from tests.builders import a_claim, a_gang


def test_registry_and_ledger_share_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    registry = SqlModelRegistry(open_engine(url))
    SqlLedger(url, runs_dir=tmp_path).submit(a_gang(), a_claim())
    assert registry.models() == []
    assert SqlModelRegistry(open_engine(url)).champion("flights") is None


def test_newer_registry_is_refused_and_left_alone(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    SqlModelRegistry(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE registry_schema SET version = 9"))
    with pytest.raises(NewerRegistry, match="version 9, and this Phalanx knows versions up to 1"):
        SqlModelRegistry(engine)
