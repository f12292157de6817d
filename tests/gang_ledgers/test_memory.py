from __future__ import annotations

import threading
from pathlib import Path

from gang_ledgers.memory import MemoryDatabase
from gang_scheduler.gang_state import GangState
from tests.builders import a_claim, a_gang, a_node_record
from tests.ledger_steps import tick


def test_threads_may_use_a_ledger_in_memory_at_once() -> None:
    ledger = MemoryDatabase().open_ledger(runs_dir=Path("/nowhere"))
    ledger.register_node(a_node_record(cpus=100))
    names = [f"dag/run-{number}/train" for number in range(8)]

    def live(name: str) -> None:
        ledger.submit(a_gang(name), a_claim())
        tick(ledger)

    threads = [threading.Thread(target=live, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {record.state for record in ledger.list_gangs()} == {GangState.ADMITTED}
    assert sorted(row.gang_id for row in ledger.history() if row.event == "admitted") == names


def test_databases_in_memory_know_nothing_of_each_other() -> None:
    one, other = (MemoryDatabase().open_ledger(runs_dir=Path("/nowhere")) for _ in range(2))
    one.submit(a_gang(), a_claim())
    assert other.list_gangs() == []
