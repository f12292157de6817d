"""Many processes on one PostgreSQL: nothing is admitted, launched or counted twice."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gang_backends.backend import AttemptState, LaunchOrder, Liveness
from gang_controller.controller import GangController
from gang_ledgers.history_check import overlaps
from gang_ledgers.ledger import CORDON, ConditionState, Directive, GangHasEnded, NodeCondition, Progress
from gang_ledgers.sql import SqlLedger
from gang_scheduler.gang import AttemptKey, Budgets, GangRequest
from gang_scheduler.gang_state import ENDED, GangState
from gang_scheduler.node import NodeState
from gang_scheduler.plan import plan
from tests.builders import HOST, a_claim, a_gang, a_node_record
from tests.ledger_steps import DONE, FAILED, KILLED, STOPPED, until

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


TROUBLED = [f"dag/run-{number}/train" for number in range(6)]
NODES = ("n1", "n2", "n3")


def trouble(url: str, folder: str, number: int, barrier: object) -> None:
    """One process: ticks and supervises as `work` does, and cordons, holds, requeues, clears and kills at random."""
    rng = random.Random(number)
    ledger = SqlLedger(url, runs_dir=Path(folder))
    for node in NODES:
        ledger.register_node(a_node_record(node))
    backend = Noting(ledger, Path(folder))
    controller = GangController(ledger, {"local": backend}, host_id=HOST)
    barrier.wait()  # type: ignore[attr-defined] # multiprocessing's barrier
    requests = {name: a_gang(name, budgets=Budgets(infrastructure=10_000, user=10_000)) for name in TROUBLED}
    for name in TROUBLED:
        controller.submit(requests[name], a_claim(f"process-{number}"))
    for _round in range(60):
        controller.tick()
        assert_fits(ledger)
        if rng.random() < 0.2:
            _make_trouble(rng, ledger, requests)
        for key in backend.mine:
            if ledger.renew(key, Progress(step=1, claimed_attempt=1)) is Directive.GO_ON and rng.random() < 0.3:
                continue  # lives on for another round
            ledger.end_attempt(key, rng.choice([KILLED, STOPPED, STOPPED, FAILED, FAILED]))
        backend.mine = [key for key in backend.mine if key in _running(ledger)]
    for key in backend.mine:
        ledger.end_attempt(key, KILLED)
    ledger.close()


def _make_trouble(rng: random.Random, ledger: SqlLedger, requests: dict[str, GangRequest]) -> None:
    name, node = rng.choice(TROUBLED), rng.choice(NODES)
    state = rng.choice([ConditionState.SET, ConditionState.UNKNOWN] + [ConditionState.CLEARED] * 4)
    effect = rng.choice([NodeState.CORDONED, NodeState.DRAINING, NodeState.FAULTY])
    acts: list[Callable[[], object]] = [
        lambda: ledger.set_condition(NodeCondition("local", node, CORDON, state, "chance", "a try", effect)),
        lambda: ledger.hold(name, "chance", "a try"),
        lambda: ledger.requeue(name, "chance", "a try"),
        lambda: ledger.release(name, None, "chance", "a try"),
        lambda: ledger.submit(requests[name], a_claim("chance", rng.randrange(100))),
        lambda: ledger.submit(requests[name], a_claim("chance", 1000 + rng.randrange(100))),
    ]
    lifts: list[Callable[[], object]] = [lambda: ledger.lift_hold(name, "chance", "a try")]
    with suppress(GangHasEnded):
        rng.choice(acts + 4 * lifts)()  # so that most holds do not last


def _running(ledger: SqlLedger) -> set[AttemptKey]:
    return {view.key for view in ledger.snapshot().gangs if view.holds_capacity}


def assert_fits(ledger: SqlLedger) -> None:
    """No node holds more than it has, as any process sees it at any moment."""
    held: Counter[str] = Counter()
    for view in ledger.snapshot().gangs:
        if view.holds_capacity and view.placement is not None:
            held.update({placed.node: placed.workers for placed in view.placement.workers})
    assert all(count <= 2 for count in held.values()), held


def test_ten_processes_never_admit_twice_when_people_and_faults_interfere(postgres_url: str, tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("forkserver")
    spawning.set_forkserver_preload(["gang_controller.controller", "gang_ledgers.sql", "tests.ledger_steps"])
    barrier = spawning.Barrier(PROCESSES)
    workers = [
        spawning.Process(target=trouble, args=(postgres_url, str(tmp_path), number, barrier))
        for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    ledger = SqlLedger(postgres_url, runs_dir=tmp_path)
    rows = ledger.history()
    ledger.close()
    assert overlaps(rows) == []
    for event in ("admitted", "started", "ended"):
        named = Counter((row.gang_id, row.submission, row.attempt) for row in rows if row.event == event)
        assert named, f"nothing was ever {event}"
        assert max(named.values()) == 1, event
    assert {"held", "requeue-asked", "released"} <= {row.event for row in rows}
    assert max(row.attempt for row in rows) > 1, "gangs came back"
    assert [row.number for row in rows] == sorted(row.number for row in rows)
    assert [row.at for row in rows] == sorted(row.at for row in rows)


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
