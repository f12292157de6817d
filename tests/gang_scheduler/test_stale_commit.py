"""A plan of a moment that is past changes nothing, whatever the plan and whatever happened since."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gang_ledgers.ledger import Ledger, StaleSnapshot
from gang_ledgers.memory import MemoryDatabase
from gang_scheduler.gang_state import GangState
from gang_scheduler.plan import plan
from gang_scheduler.snapshot import Snapshot
from tests.builders import a_claim, a_gang, a_node_record
from tests.gang_scheduler.clusters import seeds
from tests.gang_scheduler.effort import try_all


def a_ledger(chance: Random, runs_dir: Path) -> Ledger:
    """Some nodes, some gangs; some plans have been carried out."""
    ledger = MemoryDatabase().open_ledger(runs_dir=runs_dir)
    for number in range(chance.randint(1, 3)):
        ledger.register_node(a_node_record(f"n{number}", cpus=chance.randint(1, 4)))
    for number in range(chance.randint(1, 5)):
        ledger.submit(a_gang(f"dag/run-{number}/train", workers=chance.randint(1, 4)), a_claim())
        if chance.random() < 0.3:
            snapshot = ledger.snapshot()
            ledger.commit(plan(snapshot), snapshot.version)
    return ledger


def something_happens(ledger: Ledger, chance: Random) -> None:
    snapshot = ledger.snapshot()
    free = [view for view in snapshot.gangs if not view.is_held and view.state is GangState.QUEUED]
    match chance.randrange(4):
        case 0 if free:
            ledger.hold(chance.choice(free).request.gang_id, "a person", "a look at it")
        case 1 if snapshot.gangs:
            ledger.release(chance.choice(snapshot.gangs).request.gang_id, None, "a person", "no longer wanted")
        case 2:
            ledger.register_node(a_node_record(f"new-{chance.randrange(99)}"))
        case _:
            ledger.submit(a_gang(f"dag/new-{chance.randrange(99)}/train"), a_claim())


def all_of(ledger: Ledger) -> tuple[object, ...]:
    snapshot: Snapshot = ledger.snapshot()
    return snapshot.version, snapshot.nodes, snapshot.gangs, ledger.list_gangs(), ledger.history()


@pytest.mark.parametrize("cases", [pytest.param(20, id="few"), pytest.param(600, id="many", marks=pytest.mark.slow)])
def test_commit_changes_nothing_when_the_snapshot_is_stale(cases: int, tmp_path: Path) -> None:
    refused: list[int] = []

    def stale_commit_changes_nothing(seed: int) -> None:
        chance = Random(seed)
        ledger = a_ledger(chance, tmp_path)
        stale = ledger.snapshot()
        something_happens(ledger, chance)
        if ledger.snapshot().version == stale.version:
            ledger.close()
            return
        before = all_of(ledger)
        with pytest.raises(StaleSnapshot):
            ledger.commit(plan(stale), stale.version)
        assert all_of(ledger) == before
        refused.append(len(plan(stale)))
        ledger.close()

    try_all(stale_commit_changes_nothing, cases, seeds)
    assert sum(1 for acts in refused if acts) > cases / 3
