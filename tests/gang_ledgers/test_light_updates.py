"""What changes often in the ledger rewrites rows only: PostgreSQL counts such updates apart."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, text

from gang_ledgers.ledger import NodeRecord
from gang_ledgers.sql import SqlLedger
from gang_ledgers.sql_engine import open_engine
from gang_scheduler.actions import Wait, WaitReason
from gang_scheduler.node import NodeView
from gang_scheduler.resources import Resources
from tests.builders import a_claim, a_gang
from tests.ledger_steps import until

GANGS = 2  # a page has room for the changed rows beside them


def updates(engine: Engine) -> tuple[int, int]:
    """All updates of submissions so far, and those among them that wrote into no index."""
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    with engine.connect() as connection:
        counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'submissions'"
        return tuple(connection.execute(text(counted)).one())


def test_no_index_is_written_when_gangs_wait_for_another_reason(postgres_url: str, tmp_path: Path) -> None:
    ledger, engine = SqlLedger(postgres_url, runs_dir=tmp_path), open_engine(postgres_url)
    ledger.register_node(NodeRecord("host", NodeView("local", "n1", Resources(1.0, 1.0))))
    for number in range(GANGS):
        ledger.submit(a_gang(f"dag/run-{number}/train"), a_claim())
    snapshot = ledger.snapshot()
    all_before, light_before = updates(engine)
    waits = [Wait(view.key, WaitReason.NO_CAPACITY, f"{view.key} waits") for view in snapshot.gangs]
    ledger.commit(waits, snapshot.version)
    ledger.close()  # its connections hand in what they have counted

    def light_updates() -> bool:
        counted, light = updates(engine)
        return counted - all_before == GANGS and light - light_before == GANGS

    until(light_updates, "two updates that wrote into no index")
    engine.dispose()
