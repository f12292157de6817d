"""Times the ledger on the embedded PostgreSQL: loading a snapshot, whole and by what has changed; committing a tick.

    .venv/bin/python benchmarks/ledger_commit.py [--gangs 1000 10000] [--ticks 40] [--json]

A tick is 20 admissions, 50 waits for a new reason and 10 ends among so many live gangs; between two ticks, 10 attempts
that run have ended and the others have renewed their leases. What `plan` itself takes is measured elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, text

from embedded_stack.postgres import EmbeddedPostgres
from embedded_stack.state_folder import StateFolder
from gang_controller.gc_pause import paused_gc
from gang_ledgers.ledger import Claim, NodeRecord
from gang_ledgers.sql import SqlLedger
from gang_ledgers.sql_change import changing
from gang_ledgers.sql_codec import REQUEST, encode
from gang_ledgers.sql_engine import open_engine
from gang_ledgers.sql_tables import submissions
from gang_scheduler.actions import Action, Admit, Finish, Wait, WaitReason
from gang_scheduler.gang import AttemptKey, GangRequest, PlacedWorkers, Placement, WorkerGroup
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import Snapshot
from gang_scheduler.verdict import Cause, Verdict

ACTS = ("full", "unchanged", "incremental", "commit", "commit, own CPU", "round trip")
NODES = 1000
RUNNING = 500
ADMITS, WAITS, ENDS = 20, 50, 10
# A RunSpec of this repository is about so long.
RUN_SPEC = json.dumps({"recipe": "flights", "parameters": {f"parameter_{number}": number for number in range(80)}})


def main() -> None:
    """Measure each size on a database of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gangs", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--ticks", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="phalanx-benchmark-"))
    home.chmod(0o755)  # PostgreSQL runs as another user than root
    folder = StateFolder.at(home)
    folder.logs.mkdir()
    server = EmbeddedPostgres(folder, password="benchmark")  # noqa: S106 - gone in a minute
    part = server.start()
    try:
        found = [measure(server, gangs, asked.ticks) for gangs in asked.gangs]
    finally:
        part.ask_to_end()
        part.wait(time.monotonic() + 10)
        shutil.rmtree(home, ignore_errors=True)
    load = os.getloadavg()[0]
    if asked.json:
        print(json.dumps({"load": load, "sizes": found}, indent=2))
        return
    print(f"load of the machine at the end: {load:.1f} on {os.cpu_count()} cores; times in ms, p50 / p95")
    print("| live gangs | full load | load of nothing new | load after a tick | commit | its own CPU | round trip |")
    print("|---|---|---|---|---|---|---|")
    for size in found:
        cells = [f"{p50:.1f} / {p95:.1f}" for p50, p95 in size["ms"].values()]
        print(f"| {size['gangs']:,} | {' | '.join(cells)} |")


def measure(server: EmbeddedPostgres, gangs: int, ticks: int) -> dict[str, Any]:
    """One size: p50 and p95 of each act, in milliseconds."""
    name = f"gangs_{gangs}"
    admin = open_engine(server.url("postgresql+psycopg"))
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    url = server.url("postgresql+psycopg").removesuffix("/postgres") + f"/{name}"
    ledger = SqlLedger(url, runs_dir=Path("/runs"))
    running = _fill(ledger, url, gangs)
    asked = gangs
    took: dict[str, list[float]] = {act: [] for act in ACTS}
    engine = open_engine(url)
    for _ in range(5):
        anew = SqlLedger(url, runs_dir=Path("/runs"))
        with _timed(took["full"]):
            anew.snapshot()
        anew.close()
    snapshot = ledger.snapshot()
    for _ in range(ticks):
        with _timed(took["unchanged"]):
            snapshot = ledger.snapshot()
        actions = _a_tick(snapshot, running)
        began = time.process_time()
        with paused_gc(), _timed(took["commit"]):  # as the controller does
            ledger.commit(actions, snapshot.version)
        took["commit, own CPU"].append(1000 * (time.process_time() - began))
        running += [action.key for action in actions if isinstance(action, Admit)]
        _ask(engine, range(asked, asked + ADMITS))  # so that each tick finds as many that wait
        asked += ADMITS
        _live(engine, ledger, running)
        with _timed(took["incremental"]):
            snapshot = ledger.snapshot()
        with engine.connect() as connection, _timed(took["round trip"]):
            connection.execute(text("SELECT 1"))
    engine.dispose()
    ledger.close()
    return {
        "gangs": gangs,
        "nodes": NODES,
        "running": RUNNING,
        "ms": {name: _p50_p95(all_) for name, all_ in took.items()},
    }


def _fill(ledger: SqlLedger, url: str, gangs: int) -> list[AttemptKey]:
    """Nodes, pending gangs, and some that run."""
    for number in range(NODES):
        ledger.register_node(NodeRecord("host", NodeView("gpu", f"n{number:05}", Resources(64.0, 512.0, 8))))
    engine = open_engine(url)
    _ask(engine, range(gangs))
    engine.dispose()
    assert ledger.submit(_request(0), Claim("benchmark", 1)).submission == 1
    snapshot = ledger.snapshot()
    chosen = snapshot.gangs[:RUNNING]
    admits = [_admit(AttemptKey(view.request.gang_id, 1, 1), number) for number, view in enumerate(chosen)]
    ledger.commit(admits, snapshot.version)
    keys = [action.key for action in admits]
    for key in keys[: 2 * ENDS]:
        ledger.start(key, f"ref of {key}")
    return keys


def _ask(engine: Engine, numbers: range) -> None:
    """Submit gangs, in one statement."""
    with changing(engine) as change:
        rows = [
            {
                "gang_id": request.gang_id,
                "submission": 1,
                "dag_id": request.dag_id,
                "digest": request.run_spec_digest,
                "request": encode(REQUEST, request),
                "run_dir": f"/runs/{request.gang_id}",
                "owner": "benchmark",
                "generation": 1,
                "submitted_at": change.now,
                "state": GangState.QUEUED.value,
                "state_since": change.now,
                "version": change.version,
            }
            for request in map(_request, numbers)
        ]
        change.connection.execute(insert(submissions), rows)


def _request(number: int) -> GangRequest:
    return GangRequest(
        gang_id=f"dag-{number % 50}/run-{number:06}/train",
        dag_id=f"dag-{number % 50}",
        gang_pool="gpu",
        worker_groups=(WorkerGroup("trainer", 2, Resources(8, 64, 8)),),
        command=("-m", "training.train", "{run_spec}"),
        run_spec_json=RUN_SPEC,
        run_spec_digest=f"digest {number}",
    )


def _admit(key: AttemptKey, number: int) -> Admit:
    names = [f"n{(2 * number + worker) % NODES:05}" for worker in range(2)]
    nodes = tuple(PlacedWorkers(name, "trainer", 1) for name in names)
    return Admit(key, Placement("gpu", nodes), timedelta(hours=1), "2 workers on 2 nodes of one leaf")


def _a_tick(snapshot: Snapshot, running: list[AttemptKey]) -> list[Action]:
    queued = [view for view in snapshot.gangs if view.state is GangState.QUEUED]
    ended = set(running[:ENDS])
    verdict = Verdict(Cause.DONE, 1.0, "done at step 100", "finish")
    return [
        *(_admit(AttemptKey(view.request.gang_id, 1, 1), number) for number, view in enumerate(queued[:ADMITS])),
        *(
            Wait(view.key, WaitReason.NO_CAPACITY, f"asks 16 GPUs; gang pool 'gpu' has {snapshot.version} free")
            for view in queued[ADMITS : ADMITS + WAITS]
        ),
        *(
            Finish(view.key, GangState.SUCCEEDED, verdict, verdict.sentence)
            for view in snapshot.gangs
            if view.key in ended
        ),
    ]


def _live(engine: Engine, ledger: SqlLedger, running: list[AttemptKey]) -> None:
    """What supervisors do between two ticks."""
    del running[:ENDS]
    for key in running[:ENDS]:
        ledger.start(key, f"ref of {key}")
    with engine.begin() as connection:  # as all of them renewing, in one statement
        renewed = "UPDATE attempts SET lease_expires_at = now() + interval '1 hour' WHERE ended_at IS NULL"
        connection.execute(text(renewed))


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into.append(1000 * (time.perf_counter() - began))


def _p50_p95(ms: list[float]) -> tuple[float, float]:
    ordered = sorted(ms)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


if __name__ == "__main__":
    main()
