"""The snapshot that is kept up to date is the one that a ledger opened anew would read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gang_ledgers.ledger import CORDON, ConditionState, GangHasEnded, NodeCondition, Progress, UnknownGang
from gang_ledgers.memory import MemoryDatabase
from gang_ledgers.sql import SqlLedger, Timing
from gang_scheduler.actions import MarkUnknown
from gang_scheduler.gang import AttemptKey, ClockLimits
from gang_scheduler.gang_state import HOLDS_CAPACITY
from gang_scheduler.plan import plan
from gang_scheduler.snapshot import Snapshot
from tests.builders import HOST, a_claim, a_gang, a_node_record
from tests.ledger_steps import DONE, FAILED, KILLED, STOPPED, launch, ref, tick

RUNS = Path("/runs")
GANGS = [f"dag/run-{number}/train" for number in range(5)]
NODES = ("n1", "n2")
ENDS = (DONE, FAILED, KILLED, STOPPED)
# So that whoever was admitted for the last test's sake is found out of contact now and then.
TIMING = Timing(lease=timedelta(milliseconds=30), outage_after=timedelta(hours=1))

STEPS = [
    "submit",
    "other-work",
    "clear",
    "release",
    "hold",
    "lift",
    "requeue",
    "tick",
    "tick",
    "tick",
    "launch",
    "start",
    "start",
    "renew",
    "renew",
    "end",
    "end",
    "cordon",
    "uncordon",
    "resize",
    "close",
    "open",
    "prune",
]
steps = st.tuples(
    st.sampled_from(STEPS),
    st.integers(0, len(GANGS) - 1),
    st.integers(0, 3),
    st.booleans(),  # whether another process does it
)


def comparable(snapshot: Snapshot, now: datetime) -> Snapshot:
    """What two snapshots taken one after the other must agree on."""
    gangs = sorted(snapshot.gangs, key=lambda view: (view.request.gang_id, view.submission))
    return replace(snapshot, now=now, gangs=tuple(gangs), queues=())


def do(ledger: SqlLedger, step: str, number: int, which: int) -> None:
    """One call, as a task, a person, a supervisor or a ticking process makes it."""
    gang_id = GANGS[number]
    record = ledger.state(gang_id)
    generation = which + 1
    key = AttemptKey(gang_id, record.submission, record.attempt) if record else AttemptKey(gang_id, 1, 1)
    node = NODES[which % len(NODES)]
    cordon = NodeCondition("local", node, CORDON, ConditionState.SET, "ada", f"reason {number}")
    acts: dict[str, Any] = {
        "submit": lambda: ledger.submit(a_gang(gang_id, workers=which + 1), a_claim("try", generation)),
        "other-work": lambda: ledger.submit(a_gang(gang_id, run_spec_digest=f"work {which}"), a_claim("try", 9)),
        "clear": lambda: ledger.submit(
            a_gang(gang_id, limits=ClockLimits(queued=timedelta(hours=which + 1))), a_claim("cleared", 5 + which)
        ),
        "release": lambda: ledger.release(gang_id, None, "ada", "not wanted"),
        "hold": lambda: ledger.hold(gang_id, "ada", f"reason {which}"),
        "lift": lambda: ledger.lift_hold(gang_id, "ada", "done"),
        "requeue": lambda: ledger.requeue(gang_id, "ada", "elsewhere"),
        "tick": lambda: tick(ledger),
        "launch": lambda: launch(ledger),
        "start": lambda: ledger.start(key, ref(key)),
        "renew": lambda: ledger.renew(key, Progress(step=which, claimed_attempt=1, last_committed_step=which)),
        "end": lambda: ledger.end_attempt(key, ENDS[which]) if record and record.state in HOLDS_CAPACITY else None,
        "cordon": lambda: ledger.set_condition(cordon),
        "uncordon": lambda: ledger.set_condition(replace(cordon, state=ConditionState.CLEARED)),
        "resize": lambda: ledger.register_node(a_node_record(node, cpus=2 + which)),
        "close": lambda: ledger.close_host(HOST, "down"),
        "open": lambda: ledger.open_host(HOST),
        "prune": lambda: ledger.prune(timedelta(0)),
    }
    try:
        acts[step]()
    except (UnknownGang, GangHasEnded):
        return


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=40))
def test_kept_snapshot_equals_a_full_load_whatever_was_called(calls: list[tuple[str, int, int, bool]]) -> None:
    database = MemoryDatabase()
    mine, theirs = (database.open_ledger(runs_dir=RUNS, timing=TIMING) for _ in range(2))
    for node in NODES:
        mine.register_node(a_node_record(node))
    for step, number, which, is_theirs in calls:
        do(theirs if is_theirs else mine, step, number, which)
        kept = mine.snapshot()
        full = database.open_ledger(runs_dir=RUNS, timing=TIMING).snapshot()
        assert comparable(kept, full.now) == comparable(full, full.now), step
        used = {queue.name: queue.usage for queue in full.queues}
        assert {queue.name: queue.usage for queue in kept.queues} == pytest.approx(used, abs=1.0), step


def test_snapshots_follow_what_another_connection_writes(postgres_url: str, tmp_path: Path) -> None:
    mine, theirs = (SqlLedger(postgres_url, runs_dir=tmp_path, timing=TIMING) for _ in range(2))
    mine.register_node(a_node_record(cpus=4))
    assert mine.snapshot().gangs == ()
    for number in range(30):
        do(theirs, ("submit", "tick", "launch", "start", "renew", "end")[number % 6], number // 6, 0)
        anew = SqlLedger(postgres_url, runs_dir=tmp_path, timing=TIMING)
        kept, full = mine.snapshot(), anew.snapshot()
        anew.close()
        assert comparable(kept, full.now) == comparable(full, full.now)
    mine.close()
    theirs.close()


def test_expired_leases_are_seen_though_nothing_has_changed(tmp_path: Path) -> None:
    ledger = MemoryDatabase().open_ledger(runs_dir=tmp_path, timing=Timing(lease=timedelta(0)))
    ledger.register_node(a_node_record())
    ledger.submit(a_gang(), a_claim())
    tick(ledger)
    key = AttemptKey("dag/run/train", 1, 1)
    ledger.start(key, ref(key))
    version = ledger.snapshot().version
    ledger.renew(key, None)
    snapshot = ledger.snapshot()
    assert snapshot.version == version
    assert [type(action) for action in plan(snapshot)] == [MarkUnknown]


def test_everything_is_read_again_when_an_older_copy_of_the_database_is_put_back(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    first = SqlLedger(f"sqlite:///{path}", runs_dir=tmp_path)
    first.submit(a_gang(), a_claim())
    first.close()
    copy.write_bytes(path.read_bytes())
    ledger = SqlLedger(f"sqlite:///{path}", runs_dir=tmp_path)
    ledger.submit(a_gang("dag/later/train"), a_claim())
    assert len(ledger.snapshot().gangs) == 2
    ledger.close()
    for old in tmp_path.glob("ledger.db*"):
        old.unlink()
    copy.rename(path)
    assert [view.request.gang_id for view in ledger.snapshot().gangs] == ["dag/run/train"]
    ledger.close()
