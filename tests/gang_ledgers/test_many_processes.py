"""Many processes on one PostgreSQL: nothing is admitted, launched or counted twice."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from gang_backends.backend import AttemptState, LaunchOrder, Liveness
from gang_controller.controller import GangController
from gang_ledgers.history_check import overlaps
from gang_ledgers.ledger import Progress
from gang_ledgers.sql import SqlLedger
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import ENDED, GangState
from gang_scheduler.plan import plan
from tests.builders import HOST, a_claim, a_gang, a_node_record
from tests.ledger_steps import DONE, until

PROCESSES = 10
GANGS = [f"dag/run-{number}/train" for number in range(8)]


class Noting:
    """A backend that runs an attempt in the caller's process, and notes each start as a file that may exist once."""

    def __init__(self, ledger: SqlLedger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.mine: list[AttemptKey] = []

    def launch(self, order: LaunchOrder, env: object) -> str:  # noqa: ARG002
        ref = f"ref of {order.key}"
        if self.ledger.start(order.key, ref):
            note = self.folder / f"{order.key.gang_id.replace('/', '_')}-{order.key.submission}-{order.key.attempt}"
            note.touch(exist_ok=False)
            self.mine.append(order.key)
        return ref

    def state(self, ref: str, run_dir: str, key: AttemptKey) -> AttemptState:  # noqa: ARG002
        return AttemptState(Liveness.ALIVE, "its process lives")

    def stop(self, ref: str, run_dir: str, key: AttemptKey, grace: object) -> None:
        """Nobody stops anything here."""


def work(url: str, folder: str, number: int, barrier: object) -> None:
    """One process: submits every gang as everybody does, ticks, and plays the supervisor of what it launched."""
    ledger = SqlLedger(url, runs_dir=Path(folder))
    ledger.register_node(a_node_record(cpus=4))
    backend = Noting(ledger, Path(folder))
    controller = GangController(ledger, {"local": backend}, host_id=HOST)
    barrier.wait()  # type: ignore[attr-defined] # multiprocessing's barrier
    for name in GANGS[number % 3 :] + GANGS[: number % 3]:
        controller.submit(a_gang(name, run_spec_digest=name), a_claim(f"process-{number}"))

    def is_over() -> bool:
        controller.tick()
        used = sum(view.request.workers for view in ledger.snapshot().gangs if view.holds_capacity)
        assert used <= 4, f"{used} of 4 slots are held"
        for key in backend.mine:
            ledger.renew(key, Progress(step=1, claimed_attempt=1))
            ledger.end_attempt(key, DONE)
        backend.mine.clear()
        return all(record.state in ENDED for record in controller.states(GANGS).values())

    until(is_over, "all gangs end", seconds=120)
    ledger.close()


def test_ten_processes_admit_and_launch_every_gang_once(postgres_url: str, tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("forkserver")
    spawning.set_forkserver_preload(["gang_controller.controller", "gang_ledgers.sql", "tests.ledger_steps"])
    barrier = spawning.Barrier(PROCESSES)
    workers = [
        spawning.Process(target=work, args=(postgres_url, str(tmp_path), number, barrier))
        for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(180)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    ledger = SqlLedger(postgres_url, runs_dir=tmp_path)
    rows = ledger.history()
    records = ledger.states(GANGS).values()
    ledger.close()
    assert {(record.state, record.submission, record.attempt) for record in records} == {(GangState.SUCCEEDED, 1, 1)}
    for event in ("admitted", "launched", "started", "ended", "finished"):
        assert sorted(row.gang_id for row in rows if row.event == event) == sorted(GANGS), event
    assert sum(row.event == "submitted" and row.details["how"] == "new" for row in rows) == len(GANGS)
    assert [row.number for row in rows] == sorted(row.number for row in rows)
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    assert overlaps(rows) == []


def test_forked_child_neither_uses_nor_closes_its_parents_connections(postgres_url: str, tmp_path: Path) -> None:
    ledger = SqlLedger(postgres_url, runs_dir=tmp_path)
    ledger.register_node(a_node_record())
    child = multiprocessing.get_context("fork").Process(
        target=ledger.submit, args=(a_gang("dag/child/train"), a_claim("child"))
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    ledger.submit(a_gang("dag/parent/train"), a_claim("parent"))
    assert {record.gang_id for record in ledger.list_gangs()} == {"dag/child/train", "dag/parent/train"}
    assert len(plan(ledger.snapshot())) == 2
    ledger.close()


@pytest.mark.parametrize("closes", [False, True])
def test_ledger_goes_on_when_the_server_dropped_its_connections(
    postgres_url: str, tmp_path: Path, closes: bool
) -> None:
    import psycopg

    ledger = SqlLedger(postgres_url, runs_dir=tmp_path)
    ledger.submit(a_gang(), a_claim())
    plain = postgres_url.replace("+psycopg", "")
    if closes:
        ledger.close()
    with psycopg.connect(plain, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert ledger.state("dag/run/train") is not None
    with ledger.tick_lock() as is_taken:
        assert is_taken
    ledger.close()
