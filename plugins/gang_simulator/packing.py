"""Packs pods that ask for shares of GPUs onto nodes until more is asked for than there is, and says how much was used.

Pods only arrive, none ends. They are drawn from a workload with replacement, by a seed, until they have asked for a
given multiple of all devices; one that fits nowhere is turned away, and the next is tried. The policy has seen the
workload as its history, not what is drawn from it nor the order.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from gang_scheduler.devices import MILLI
from gang_scheduler.sharing import NodeShare, Option, Preference, ShareAsk, best_option, devices_at, taken
from gang_simulator.packing_policies import POLICIES


class NotPackable(ValueError):
    """There is nothing to pack, or nothing to pack it on."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What became of the pods; widths are devices a pod ("share": a part of one), in the order of their size."""

    policy: str
    seed: int
    demand: float
    gpu_allocation: float  # percent of all devices
    gpus: int
    gpus_asked: float
    nodes: int
    pods_placed: int
    pods_failed: int
    by_width: Mapping[str, tuple[int, int]]  # placed, failed


class Cluster:
    """Nodes that fill up. `place` chooses as `gang_scheduler.sharing.choose` does, at the cost of what changed.

    For each ask there is a heap of options; a node that has changed since that ask was last placed gets a new entry,
    and an entry from before its node's last change is passed over.
    """

    def __init__(self, nodes: Mapping[str, NodeShare], preference: Preference) -> None:
        """The nodes as they are now."""
        self.states = dict(nodes)
        self._preference = preference
        self._shapes = {name: state.shape for name, state in nodes.items()}
        self._changes: list[str] = sorted(self.states)
        self._version = dict.fromkeys(self.states, 0)
        self._heaps: dict[ShareAsk, list[tuple[Option, str, int]]] = {}
        self._seen: dict[ShareAsk, int] = {}
        self._options: dict[ShareAsk, dict[NodeShare, Option | None]] = {}

    def place(self, ask: ShareAsk) -> tuple[str, tuple[int, ...]] | None:
        """Take the best node and devices for the ask and return them, or None if it fits nowhere."""
        heap = self._up_to_date(ask)
        if not heap:
            return None
        option, name, _ = heap[0]
        state = self.states[name]
        devices = devices_at(state, ask, option.level_milli)
        self.states[name] = taken(state, ask, devices)
        self._shapes[name] = self.states[name].shape
        self._version[name] += 1
        self._changes.append(name)
        return name, devices

    def _up_to_date(self, ask: ShareAsk) -> list[tuple[Option, str, int]]:
        heap = self._heaps.setdefault(ask, [])
        options = self._options.setdefault(ask, {})
        for name in set(self._changes[self._seen.get(ask, 0) :]):
            shape = self._shapes[name]
            if shape not in options:
                options[shape] = best_option(shape, ask, self._preference)
            option = options[shape]
            if option is not None:
                heapq.heappush(heap, (option, name, self._version[name]))
        self._seen[ask] = len(self._changes)
        while heap and heap[0][2] != self._version[heap[0][1]]:
            heapq.heappop(heap)
        return heap


def arrivals(pods: Sequence[ShareAsk], gpus_milli: float, seed: int) -> list[ShareAsk]:
    """Pods drawn with replacement until they have asked for so many thousandths of devices.

    Raises:
        NotPackable: no pod asks for a GPU, so that this would never end.
    """
    if not any(pod.total_milli for pod in pods):
        raise NotPackable(f"none of the {len(pods)} pods asks for a GPU; at least one has to")
    random = Random(seed)
    drawn: list[ShareAsk] = []
    asked = 0
    while asked < gpus_milli:
        pod = random.choice(pods)
        drawn.append(pod)
        asked += pod.total_milli
    return drawn


def pack(pods: Sequence[ShareAsk], nodes: Mapping[str, NodeShare], *, demand: float, seed: int, policy: str) -> Packed:
    """Pack what is drawn from `pods` onto those of the nodes that have GPUs.

    Args:
        pods: the workload: the policy's history, and what is drawn from.
        nodes: by name, empty.
        demand: how much is asked for, as a multiple of all devices.
        seed: of the draw.
        policy: a name in `POLICIES`.

    Raises:
        NotPackable: there is no such policy, no node has a GPU, no pod asks for one, or the demand is not positive.
    """
    if policy not in POLICIES:
        raise NotPackable(f"policy '{policy}' is unknown; allowed: {', '.join(POLICIES)}")
    if not (0 < demand < math.inf):
        raise NotPackable(f"demand {demand}: a multiple of all GPUs above 0 is allowed, e.g. 1.3")
    with_gpus = {name: node for name, node in nodes.items() if node.gpu_free_milli}
    if not with_gpus:
        raise NotPackable(f"none of the {len(nodes)} nodes has a GPU; at least one has to")
    gpus = sum(len(node.gpu_free_milli) for node in with_gpus.values())
    drawn = arrivals(pods, demand * gpus * MILLI, seed)
    cluster = Cluster(with_gpus, POLICIES[policy](Counter(pods), list(with_gpus.values())))
    placed: Counter[ShareAsk] = Counter()
    failed: Counter[ShareAsk] = Counter()
    for pod in drawn:
        (failed if cluster.place(pod) is None else placed)[pod] += 1
    return Packed(
        policy=policy,
        seed=seed,
        demand=demand,
        gpu_allocation=100 * _total_milli(placed) / (gpus * MILLI),
        gpus=gpus,
        gpus_asked=sum(pod.total_milli for pod in drawn) / MILLI,
        nodes=len(with_gpus),
        pods_placed=placed.total(),
        pods_failed=failed.total(),
        by_width=_by_width(placed, failed),
    )


def _total_milli(pods: Mapping[ShareAsk, int]) -> int:
    return sum(pod.total_milli * count for pod, count in pods.items())


def _by_width(placed: Counter[ShareAsk], failed: Counter[ShareAsk]) -> dict[str, tuple[int, int]]:
    def width(pod: ShareAsk) -> float:
        return 0.5 if 0 < pod.gpu_milli < MILLI else pod.gpus  # shares stand between no device and a whole one

    def count(pods: Counter[ShareAsk], wanted: float) -> int:
        return sum(count for pod, count in pods.items() if width(pod) == wanted)

    widths: Iterable[float] = sorted({width(pod) for pod in (*placed, *failed)})
    return {("share" if each == 0.5 else str(each)): (count(placed, each), count(failed, each)) for each in widths}
