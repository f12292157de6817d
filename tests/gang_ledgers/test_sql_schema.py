from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gang_ledgers.ledger import LedgerUnavailable, NewerSchema
from gang_ledgers.sql import SqlLedger
from tests.builders import a_claim, a_gang


def test_ledger_keeps_what_it_has_when_it_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    SqlLedger(url, runs_dir=tmp_path).submit(a_gang(), a_claim())
    assert SqlLedger(url, runs_dir=tmp_path).state("dag/run/train") is not None


def test_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    SqlLedger(f"sqlite:///{path}", runs_dir=tmp_path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE ledger_schema SET version = 7")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match="version 7, and this Phalanx knows versions up to 3"):
        SqlLedger(f"sqlite:///{path}", runs_dir=tmp_path)
    assert path.read_bytes() == before


def test_trouble_is_named_without_the_password_when_nobody_answers(tmp_path: Path) -> None:
    url = "postgresql+psycopg://phalanx:secret-word@127.0.0.1:1/phalanx"
    with pytest.raises(LedgerUnavailable, match="does not answer") as caught:
        SqlLedger(url, runs_dir=tmp_path)
    assert "secret-word" not in str(caught.value)
    assert "secret-word" not in repr(caught.value.__cause__)
