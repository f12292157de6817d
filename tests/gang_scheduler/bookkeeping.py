"""Plain book-keeping of what gangs hold: on purpose not the scheduler's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gang_scheduler.actions import Action, Admit
from gang_scheduler.gang import GangRequest, PlacedWorkers, Placement, WorkerGroup
from gang_scheduler.node import NodeView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import Snapshot

POOLS = ("gpu", "cpu")
QUEUES = ("red", "blue", "green")
Held = tuple[GangRequest, Placement]


@dataclass
class Load:
    """What is held on one node."""

    cpus: float = 0.0
    memory_gib: float = 0.0
    gpus: int = 0
    scratch_gib: float = 0.0
    mig: Counter[str] = field(default_factory=Counter)
    thousandths: Counter[int] = field(default_factory=Counter)  # of each device that is shared

    def add(self, each: Resources, placed: PlacedWorkers) -> None:
        self.cpus += each.cpus * placed.workers
        self.memory_gib += each.memory_gib * placed.workers
        self.gpus += each.gpus * placed.workers
        self.scratch_gib += each.scratch_gib * placed.workers
        for profile, count in each.mig:
            self.mig[profile] += count * placed.workers
        if each.gpu_share:
            assert len(placed.devices) == placed.workers, "each worker's share is of a device that is named"
            for device in placed.devices:
                self.thousandths[device] += round(each.gpu_share * 1000)

    def over(self, size: Resources) -> list[str]:
        """What is held beyond the node's size."""
        shared = [device for device, used in self.thousandths.items() if used]
        checks = {
            "cpus": self.cpus <= size.cpus + 1e-6,
            "memory": self.memory_gib <= size.memory_gib + 1e-6,
            "scratch": self.scratch_gib <= size.scratch_gib + 1e-6,
            "gpus": self.gpus + len(shared) <= size.gpus,
            "a device": all(device < size.gpus and used <= 1000 for device, used in self.thousandths.items()),
            "mig": all(count <= dict(size.mig).get(profile, 0) for profile, count in self.mig.items()),
        }
        return [what for what, holds in checks.items() if not holds]


def loads(held: Iterable[Held]) -> dict[tuple[str, str], Load]:
    """By pool and node."""
    found: dict[tuple[str, str], Load] = {}
    for request, placement in held:
        each = {group.name: group.each for group in request.worker_groups}
        for placed in placement.workers:
            found.setdefault((placement.pool, placed.node), Load()).add(each[placed.group], placed)
    return found


def holding(snapshot: Snapshot) -> list[Held]:
    return [(view.request, view.placement) for view in snapshot.gangs if view.placement is not None]


def admitted(snapshot: Snapshot, actions: Sequence[Action]) -> list[Held]:
    by_id = {view.request.gang_id: view.request for view in snapshot.gangs}
    return [(by_id[act.key.gang_id], act.placement) for act in actions if isinstance(act, Admit)]


def amounts(request: GangRequest, placement: Placement) -> dict[str, float]:
    """What quotas count."""
    each = {group.name: group.each for group in request.worker_groups}
    found = {"gpus": 0.0, "cpus": 0.0, "memory_gib": 0.0}
    for placed in placement.workers:
        one = each[placed.group]
        found["gpus"] += (one.gpus + one.gpu_share) * placed.workers
        found["cpus"] += one.cpus * placed.workers
        found["memory_gib"] += one.memory_gib * placed.workers
    return found


def used(held: Iterable[Held]) -> Counter[tuple[str, str, str]]:
    """By queue, pool and resource."""
    found: Counter[tuple[str, str, str]] = Counter()
    for request, placement in held:
        for resource, amount in amounts(request, placement).items():
            found[request.gang_queue, placement.pool, resource] += amount  # type: ignore[assignment] # floats are summed
    return found


def watts(snapshot: Snapshot, pool: str, held: Iterable[Held]) -> float:
    in_use = {(placement.pool, node) for _, placement in held for node in placement.nodes}
    return sum(node.watts for node in snapshot.nodes if (node.pool, node.node) in in_use and node.pool == pool)


def first_fit(request: GangRequest, nodes: Sequence[NodeView], held: Sequence[Held]) -> Placement | None:
    """Each worker on the first node of the pool that holds it; None if one finds no place."""
    taken = loads(held)
    placed: Counter[tuple[str, str]] = Counter()
    devices: dict[tuple[str, str], list[int]] = {}
    for group in request.worker_groups:
        for _ in range(group.fewest):
            spot = _spot(group, request.gang_pool, nodes, taken)
            if spot is None:
                return None
            node, device = spot
            placed[node, group.name] += 1
            devices.setdefault((node, group.name), []).extend(device)
    workers = tuple(
        PlacedWorkers(node, group, count, tuple(devices[node, group])) for (node, group), count in placed.items()
    )
    return Placement(request.gang_pool, workers)


def _spot(
    group: WorkerGroup, pool: str, nodes: Sequence[NodeView], taken: dict[tuple[str, str], Load]
) -> tuple[str, tuple[int, ...]] | None:
    for node in nodes:
        if node.pool != pool:
            continue
        choices: list[tuple[int, ...]] = (
            [(device,) for device in range(node.capacity.gpus)] if group.each.gpu_share else [()]
        )
        for device in choices:
            load = taken.setdefault((pool, node.node), Load())
            one = PlacedWorkers(node.node, group.name, 1, device)
            load.add(group.each, one)
            if not load.over(node.capacity):
                return node.node, device
            _remove(load, group.each, device)
    return None


def _remove(load: Load, each: Resources, devices: tuple[int, ...]) -> None:
    load.cpus -= each.cpus
    load.memory_gib -= each.memory_gib
    load.gpus -= each.gpus
    load.scratch_gib -= each.scratch_gib
    for profile, count in each.mig:
        load.mig[profile] -= count
    for device in devices:
        load.thousandths[device] -= round(each.gpu_share * 1000)
