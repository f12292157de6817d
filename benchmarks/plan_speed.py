"""How long `plan()` takes on a built snapshot, and how that grows with the cluster.

    .venv/bin/python benchmarks/plan_speed.py                 # 1,000 nodes with 1,000 pending, 12,500 with 10,000
    .venv/bin/python benchmarks/plan_speed.py --plot plan.png # more sizes, and the cost against size as a picture

The load is made up (seeded): a full cluster of nodes with 8 GPUs under leaves of 16 and spines of 256 nodes, four gang
queues of one cohort with equal quotas, widths from 1 GPU to 512, a quarter of the gangs with a higher priority, four
in five with a known duration. It is brought to rest by planning and applying what was planned three times; then, for
each measurement, another 1 % of the running gangs end, and the plan for that moment is timed. Both clocks are shown:
on a machine with other work the wall clock is the noisier. Such a plan follows one for the same nodes, as all but the
first do; the columns "anew" are of plans that find nothing of an earlier one, as after a start or when nodes changed.
"""

from __future__ import annotations

import argparse
import gc
import math
import platform
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gang_controller.gc_pause import paused_gc
from gang_scheduler.actions import Admit, AskStop, Wait
from gang_scheduler.gang import GangRequest, PlacedWorkers, Placement, WorkerGroup
from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeView
from gang_scheduler.plan import plan
from gang_scheduler.pool import PoolView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, Snapshot

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUEUES = 4
GPUS = 8
WIDTHS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8), (16, 8), (64, 8))  # workers, GPUs of each
HOW_OFTEN = (30, 10, 15, 20, 10, 6, 5, 3, 1)


@dataclass(frozen=True)
class Measured:
    """One size: seconds of each run on both clocks, and what the plans decided in the mean."""

    nodes: int
    pending: int
    running: int
    wall_s: Sequence[float]
    cpu_s: Sequence[float]
    anew_s: Sequence[float]  # wall clock
    admits: float

    def at(self, quantile: float) -> float:
        """A quantile of the wall clock, in seconds."""
        return at(self.wall_s, quantile)


def at(numbers: Sequence[float], quantile: float) -> float:
    """A quantile: the least number that so many are at most."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, math.ceil(quantile * len(ordered)) - 1)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    sizes = [(1_000, 1_000), (12_500, 10_000)]
    if options.plot:
        sizes = [(125, 100), (250, 200), (500, 400), (1_000, 1_000), (2_500, 2_000), (5_000, 4_000), (12_500, 10_000)]
    print(f"{platform.machine()}, Python {platform.python_version()}, {options.runs} runs a size, seed {options.seed}")
    print(
        f"{'nodes':>7} {'pending':>8} {'running':>8} {'p50 ms':>8} {'p95 ms':>8} {'CPU p50':>8} "
        f"{'anew p50':>9} {'p95':>8} {'admits':>7}"
    )
    found = []
    for nodes, pending in sizes:
        measured = measure(nodes, pending, options.runs, options.seed)
        found.append(measured)
        print(
            f"{measured.nodes:>7,} {measured.pending:>8,} {measured.running:>8,} {measured.at(0.5) * 1e3:>8.1f} "
            f"{measured.at(0.95) * 1e3:>8.1f} {statistics.median(measured.cpu_s) * 1e3:>8.1f} "
            f"{at(measured.anew_s, 0.5) * 1e3:>9.1f} {at(measured.anew_s, 0.95) * 1e3:>8.1f} {measured.admits:>7.1f}"
        )
    if len(found) > 1:
        print(f"cost grows as (nodes + gangs) to the power of {exponent(found):.2f} over these sizes")
    if options.plot:
        draw(found, options.plot)
        print(f"plot: {options.plot}")


def measure(nodes: int, pending: int, runs: int, seed: int) -> Measured:
    """Time `plan` at moments that differ in which gangs have just ended."""
    rested = rest(full_cluster(nodes, pending, seed))
    wall, cpu, admits = [], [], []
    moments = list(ends(rested, runs + 1, seed))
    plan(moments[0])  # what is derived of a request is worked out once, as in a process that ticks
    gc.collect()
    for moment in moments[1:]:
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        with paused_gc():  # as the controller does
            actions = plan(moment)
        wall.append(time.perf_counter() - wall_start)
        cpu.append(time.process_time() - cpu_start)
        admits.append(sum(isinstance(action, Admit) for action in actions))
    anew = []
    for moment in moments[1:]:
        plan(Snapshot(moment.now, 0))  # another cluster, so that nothing is known of this one
        gc.collect()
        start = time.perf_counter()
        with paused_gc():
            plan(moment)
        anew.append(time.perf_counter() - start)
    running = sum(view.holds_capacity for view in rested.gangs)
    return Measured(nodes, len(rested.gangs) - running, running, wall, cpu, anew, statistics.mean(admits))


def full_cluster(nodes: int, pending: int, seed: int) -> Snapshot:
    """A cluster whose every GPU is in use, and so many gangs that wait (some more, since some will start at once)."""
    rng = random.Random(seed)
    there = tuple(
        NodeView(
            "gpu",
            f"node-{number:05d}",
            Resources(cpus=96, memory_gib=1024, gpus=GPUS),
            location=(f"spine-{number // 256}", f"leaf-{number // 16}"),
        )
        for number in range(nodes)
    )
    gangs: list[GangView] = []
    at = free = 0
    while at < nodes:
        workers, gpus = rng.choices(WIDTHS, HOW_OFTEN)[0]
        if gpus == GPUS:
            workers = min(workers, nodes - at)
            on, at = range(at, at + workers), at + workers
        else:
            if free < gpus:
                free = GPUS
            on, free = range(at, at + 1), free - gpus
            if free == 0:
                at += 1
            elif free < gpus:
                at, free = at + 1, 0
        placed = tuple(PlacedWorkers(f"node-{node:05d}", "trainer", 1) for node in on)
        began = NOW - timedelta(minutes=rng.randint(1, 6000))
        request = a_request(len(gangs), workers, gpus, rng)
        gangs.append(
            GangView(
                request,
                1,
                1,
                GangState.RUNNING,
                began,
                began,
                Placement("gpu", placed),
                began,
                lease_expires_at=NOW + timedelta(seconds=10),
            )
        )
    for _ in range(math.ceil(pending * 1.3)):
        workers, gpus = rng.choices(WIDTHS, HOW_OFTEN)[0]
        asked = NOW - timedelta(minutes=rng.randint(1, 600))
        gangs.append(GangView(a_request(len(gangs), workers, gpus, rng), 1, 0, GangState.QUEUED, asked, asked))
    quota = Quota("gpu", "gpus", nodes * GPUS / QUEUES)
    queues = tuple(QueueView(f"queue-{number}", "company", (quota,)) for number in range(QUEUES))
    return Snapshot(NOW, 1, there, tuple(gangs), (PoolView("gpu", levels=("spine", "leaf")),), queues)


def a_request(number: int, workers: int, gpus: int, rng: random.Random) -> GangRequest:
    """One gang of one group."""
    hours = rng.choice([1, 2, 5, 20, 100])
    return GangRequest(
        gang_id=f"dag-{number % 50}/run-{number}/train",
        dag_id=f"dag-{number % 50}",
        gang_pool="gpu",
        worker_groups=(WorkerGroup("trainer", workers, Resources(cpus=gpus * 8, memory_gib=gpus * 64, gpus=gpus)),),
        command=("-m", "training.train"),
        run_spec_json="{}",
        run_spec_digest=str(number),
        gang_queue=f"queue-{number % QUEUES}",
        gang_priority=rng.choice([0, 0, 0, 1]),
        expected_duration=timedelta(hours=hours) if rng.random() < 0.8 else None,
    )


def rest(snapshot: Snapshot, rounds: int = 3) -> Snapshot:
    """Apply what is planned, so that what is left waits for ends; who was asked to stop is taken to be gone."""
    for _ in range(rounds):
        actions = plan(snapshot)
        admitted = {action.key.gang_id: action for action in actions if isinstance(action, Admit)}
        stopped = {action.key for action in actions if isinstance(action, AskStop)}
        waits = {action.key: action for action in actions if isinstance(action, Wait)}
        gangs = []
        for view in snapshot.gangs:
            if view.key in stopped:
                continue
            grant, wait = admitted.get(view.request.gang_id), waits.get(view.key)
            if grant is not None:
                lease = NOW + timedelta(seconds=10)
                gangs.append(
                    replace(
                        view,
                        state=GangState.RUNNING,
                        attempt=1,
                        placement=grant.placement,
                        state_since=NOW,
                        lease_expires_at=lease,
                    )
                )
            elif wait is not None:
                gangs.append(replace(view, wait_reason=wait.reason.value, wait_sentence=wait.sentence))
            else:
                gangs.append(view)
        snapshot = replace(snapshot, gangs=tuple(gangs))
    return snapshot


def ends(snapshot: Snapshot, count: int, seed: int) -> Iterator[Snapshot]:
    """The snapshot after another 1 % of its running gangs have ended, so many times; the others renew their leases."""
    rng = random.Random(seed + 1)
    running = [view.key for view in snapshot.gangs if view.holds_capacity]
    for _ in range(count):
        gone = set(rng.sample(running, max(1, len(running) // 100)))
        expires_at = snapshot.now + timedelta(seconds=rng.uniform(10, 14))
        yield replace(
            snapshot,
            gangs=tuple(
                replace(view, lease_expires_at=expires_at) if view.holds_capacity else view
                for view in snapshot.gangs
                if view.key not in gone
            ),
        )


def exponent(found: Sequence[Measured]) -> float:
    """The slope of log cost over log size, by least squares."""
    xs = [math.log(measured.nodes + measured.pending + measured.running) for measured in found]
    ys = [math.log(measured.at(0.5)) for measured in found]
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - mean_x) ** 2 for x in xs)


def draw(found: Sequence[Measured], path: Path) -> None:
    """Cost against size on logarithmic axes, beside n log n through the first point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = [measured.nodes + measured.pending + measured.running for measured in found]
    costs = [measured.at(0.5) * 1e3 for measured in found]
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    axes.loglog(sizes, costs, "o-", label="plan(), p50")
    axes.loglog(sizes, [measured.at(0.95) * 1e3 for measured in found], "s--", label="plan(), p95")
    per_unit = costs[0] / (sizes[0] * math.log(sizes[0]))
    axes.loglog(sizes, [per_unit * size * math.log(size) for size in sizes], ":", label="n log n")
    axes.set_xlabel("nodes + gangs")
    axes.set_ylabel("milliseconds")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
