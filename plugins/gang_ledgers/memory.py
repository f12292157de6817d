"""A ledger that lives in this process alone, e.g. for a test or a trial: the SQL ledger on SQLite in memory."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from gang_ledgers.sql import SqlLedger, Timing
from gang_ledgers.sql_engine import open_memory_engine


class MemoryDatabase:
    """A database in memory; every ledger over it sees the same gangs, from any thread of this process.

    Nothing is on disk: it is gone with the object, and when one of its ledgers is closed.
    """

    def __init__(self) -> None:
        self._engine: Engine = open_memory_engine()

    def open_ledger(self, *, runs_dir: Path, timing: Timing | None = None) -> SqlLedger:
        """Another ledger over this database; run folders are named under `runs_dir`, and not made."""
        return SqlLedger(self._engine, runs_dir=runs_dir, timing=timing)
