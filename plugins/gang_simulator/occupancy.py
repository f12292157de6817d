"""Which GPUs are held, node by node, and how that went over time: the replay's own count, not the scheduler's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gang_scheduler.gang import GangRequest, Placement
from gang_scheduler.node import NodeView


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stood from this second of the trace on.

    `stranded_gpus` are free ones of nodes that are in part in use: no gang that asks whole nodes can have them.
    `usable_gpus` are those of nodes without a fault.
    """

    at_s: float
    held_gpus: int
    usable_gpus: int
    stranded_gpus: int
    waiting: int
    waiting_gpus: int

    @property
    def stands(self) -> tuple[int, ...]:
        """All but the time."""
        return self.held_gpus, self.usable_gpus, self.stranded_gpus, self.waiting, self.waiting_gpus


class Occupancy:
    """Refuses what no cluster could do: hold more than there is, place a part of a gang, use a faulty node."""

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        """An empty cluster."""
        self.capacity = {node.node: node.capacity.gpus for node in nodes}
        self.free = dict(self.capacity)
        self.held_gpus = 0
        self.stranded_gpus = 0
        self.usable_gpus = sum(self.capacity.values())
        self._faulty: set[str] = set()

    def take(self, request: GangRequest, placement: Placement) -> None:
        """Let the gang hold its placement."""
        workers = dict.fromkeys((group.name for group in request.worker_groups), 0)
        each = {group.name: group.each.gpus for group in request.worker_groups}
        for placed in placement.workers:
            workers[placed.group] += placed.workers
            gpus = each[placed.group] * placed.workers
            if gpus > self.free[placed.node] or placed.node in self._faulty:
                state = "faulty" if placed.node in self._faulty else f"free with {self.free[placed.node]} GPUs"
                raise AssertionError(f"{request.gang_id} got {gpus} GPUs of {placed.node}, which is {state}")
            self._change(placed.node, -gpus)
        if any(workers[group.name] != group.workers for group in request.worker_groups):
            raise AssertionError(f"{request.gang_id} was placed in part: {placement}")

    def give(self, request: GangRequest, placement: Placement) -> None:
        """Free what the gang held."""
        each = {group.name: group.each.gpus for group in request.worker_groups}
        for placed in placement.workers:
            self._change(placed.node, each[placed.group] * placed.workers)

    def fail(self, node: str) -> None:
        """The node is out of use; nobody holds anything of it any more."""
        assert self.free[node] == self.capacity[node]
        self._faulty.add(node)
        self.usable_gpus -= self.capacity[node]

    def mend(self, node: str) -> None:
        """The node is back."""
        self._faulty.remove(node)
        self.usable_gpus += self.capacity[node]

    def _change(self, node: str, gpus: int) -> None:
        self.stranded_gpus -= self._stranded(node)
        self.free[node] += gpus
        self.held_gpus -= gpus
        self.stranded_gpus += self._stranded(node)

    def _stranded(self, node: str) -> int:
        free = self.free[node]
        return free if free < self.capacity[node] else 0
