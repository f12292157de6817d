"""Clusters of every sort, each made of one number: hypothesis picks the numbers.

Made with `random.Random` and not drawn value by value: cases come an order of magnitude faster, and as rich as wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from gang_scheduler.gang import NO_WISHES, GangRequest, NodeWishes, Topology, WorkerGroup
from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeState, NodeView
from gang_scheduler.policy import Blocking, Order, Policy
from gang_scheduler.pool import DailyWindow, PoolView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, Snapshot
from tests.builders import NOON, a_gpu_gang, a_view
from tests.gang_scheduler.bookkeeping import Held, first_fit

QUEUES = ("red", "blue", "green")
T = TypeVar("T")


def seldom(chance: Random, unusual: T, usual: T, odds: int = 5) -> T:
    """The unusual one once in so many times."""
    return unusual if chance.randrange(odds) == 0 else usual


def some_node(chance: Random, number: int) -> NodeView:
    """Of pool gpu, but for some of the later ones."""
    pick = chance.choice
    return NodeView(
        "gpu" if number < 2 else pick(["gpu", "gpu", "cpu"]),
        f"n{number}",
        Resources(
            float(pick([4, 8, 12, 24])),
            pick([16.0, 64.0]),
            pick([0, 1, 2, 4, 8]),
            pick([0.0, 20.0, 20.0]),
            mig=pick([(), (("1g", 3),), (("1g", 1), ("3g", 1))]),
        ),
        is_cordoned=seldom(chance, True, False, 10),
        state=seldom(chance, pick([NodeState.UNKNOWN, NodeState.DRAINING]), NodeState.READY, 10),
        location=(pick(["leaf-1", "leaf-2"]),),
        labels={"row": pick(["1", "2"])},
        gpu_model=pick(["A", "B"]),
        region=pick(["eu", "us"]),
        watts=pick([500.0, 1000.0]),
        compute=pick([1.0, 1.0, 2.0]),
    )


def some_queue(chance: Random, name: str) -> QueueView:
    """With up to two quotas in pool gpu."""
    pick = chance.choice
    resources = chance.sample(["gpus", "gpus", "cpus", "memory_gib"], chance.randint(0, 2))
    return QueueView(
        name,
        cohort=pick(["", "all", "all"]),
        quotas=tuple(
            Quota("gpu", what, float(pick([0, 1, 2, 4, 8])), pick([None, None, 0.0, 2.0]), pick([None, None, 0.0, 1.0]))
            for what in dict.fromkeys(resources)
        ),
        weight=pick([1.0, 3.0]),
        usage=pick([0.0, 1e5]),
        windows=seldom(chance, (pick([DailyWindow(8, 18), DailyWindow(22, 6)]),), ()),
        harvests_only=seldom(chance, True, False),
        max_gangs=seldom(chance, 2, 0),
        max_gpus=seldom(chance, 3.0, 0.0),
    )


def some_policy(chance: Random) -> Policy:
    """Every switch either way."""
    pick = chance.choice
    return Policy(
        order=pick(list(Order)),
        blocking=pick([Blocking.EASY, *Blocking]),
        preempts_by_order=pick([True, False]),
        preempts_by_priority=pick([True, True, False]),
        reclaims_quota=pick([True, True, False]),
        fair_share=pick([True, True, False]),
        aged_after=pick([None, timedelta(days=7), timedelta(minutes=3)]),
        las_gap=pick([1, 4]),
    )


def some_wishes(chance: Random) -> NodeWishes:
    """One or two of them."""
    every = {
        "regions": ("eu",),
        "labels": {"row": "1"},
        "preferred_labels": {"row": "2"},
        "gpu_models": chance.choice([("B",), ("B", "A")]),
        "near": ("dag/run-0/train",),
        "apart": ("dag/run-1/train",),
        "excluded": ("n0",),
    }
    names = chance.sample(sorted(every), chance.randint(1, 2))
    return NodeWishes(**{name: every[name] for name in names}, spread_level=chance.choice(["node", "leaf"]))  # type: ignore[arg-type]


def some_worker(chance: Random) -> Resources:
    """Whole GPUs, mostly; else a share, MIG instances or CPUs."""
    pick = chance.choice
    match chance.randrange(8):
        case 0:
            return Resources(1.0, gpu_share=pick([0.25, 0.3, 0.5, 0.6, 1.0]))
        case 1:
            return Resources(1.0, mig=pick([(("1g", 1),), (("1g", 2),), (("3g", 1),)]))
        case 2:
            return Resources(pick([0.1, 0.7, 2.0, 4.0]), pick([0.0, 8.0]), 0, pick([0.0, 10.0]))
        case _:
            return Resources(pick([0.5, 1.0, 2.0]), pick([0.0, 8.0]), pick([1, 1, 2, 4]))


def some_request(chance: Random, number: int) -> GangRequest:
    """One or two worker groups, now and then elastic, with wishes, a topology, a fallback."""
    pick = chance.choice
    groups = tuple(
        WorkerGroup(
            f"group-{index}", chance.randint(1, 4), some_worker(chance), pick([None, None, 1]), pick([True, False])
        )
        for index in range(pick([1, 1, 1, 2]))
    )
    pool = seldom(chance, "cpu", "gpu", 8)
    topology = pick([Topology("leaf"), Topology("leaf", True), Topology("node", True)])
    return a_gpu_gang(
        f"dag/run-{number}/train",
        minutes=pick([None, 1, 10, 60, 600]),
        gang_pool=pool,
        gang_queue=pick(QUEUES),
        gang_priority=pick([0, 0, 1, 2]),
        is_preemptible=seldom(chance, False, True),
        worker_groups=groups,
        fallback_pools=seldom(chance, ("cpu",), (), 4) if pool == "gpu" else (),
        topology=seldom(chance, topology, None, 4),
        wishes=seldom(chance, some_wishes(chance), NO_WISHES, 4),
        storage_gib=pick([0.0, 0.0, 30.0]),
        deadline=pick([None, NOON + timedelta(hours=1)]),
    )


def some_gang(chance: Random, number: int, nodes: Sequence[NodeView], held: list[Held]) -> GangView:
    """It waits, or holds what there is for it; adds to `held`."""
    request = some_request(chance, number)
    state = chance.choice([GangState.QUEUED] * 4 + [GangState.RUNNING] * 4 + [GangState.STOPPING, GangState.UNKNOWN])
    waited = timedelta(seconds=chance.choice([1, 60, 400, 4000]))
    placement = None if state is GangState.QUEUED else first_fit(request, nodes, held)
    if placement is None:
        return a_view(request, GangState.QUEUED, waited=waited, is_held=seldom(chance, True, False, 30))
    held.append((request, placement))
    return a_view(request, state, waited=waited, placement=placement, lease_expires_at=None)


def snapshot_of(seed: int) -> Snapshot:
    """A ledger in which nothing is held that is not there; quotas may have been cut since."""
    chance = Random(seed)
    nodes, held = tuple(some_node(chance, number) for number in range(chance.randint(1, 6))), list[Held]()
    gangs = tuple(some_gang(chance, number, nodes, held) for number in range(chance.randint(1, 10)))
    gpu = PoolView(
        "gpu",
        levels=("leaf",),
        storage_gib=chance.choice([0.0, 100.0]),
        power_cap_w=seldom(chance, 2000.0, 0.0),
        cpu_reserve_per_gpu=chance.choice([0.0, 1.0]),
    )
    queues = tuple(some_queue(chance, name) for name in chance.sample(QUEUES, chance.randint(0, 3)))
    return Snapshot(NOON, 1, nodes, gangs, (gpu, PoolView("cpu", levels=("leaf",))), queues, some_policy(chance))


seeds = st.integers(0, 2**32 - 1)
