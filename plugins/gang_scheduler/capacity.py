"""What is free in one pool, node by node, kept so that the next question about it is cheap.

Nodes are numbered in the order of their location, so nodes of one domain are neighbours; sets of nodes are the bits of
one integer. For each worker shape that was asked for there is a `SlotTable`: how many such workers each node and each
domain still takes. A table is made once (linear in the nodes) and then kept up to date by `take`, so a plan costs what
changes, not what exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, pairwise

from gang_scheduler.devices import Devices, split
from gang_scheduler.gang import GangRequest, Placement
from gang_scheduler.node import NodeView
from gang_scheduler.pool import PoolView
from gang_scheduler.resources import PLENTY, TINY, Resources

BUCKETS = 256  # nodes are sorted by free GPUs (CPUs where they have none); what is above shares the last bucket


def as_bits(is_in: Sequence[bool]) -> int:
    """The set of numbers at which the sequence is true."""
    return int("".join(["1" if is_true else "0" for is_true in reversed(is_in)]) or "0", 2)


class SlotTable:
    """How many workers of one shape fit: by node, by domain at each level (widest first), and in the whole pool."""

    __slots__ = ("by_domain", "by_node", "mask", "most", "total")

    def __init__(self, by_node: list[int], domain_nodes: Sequence[Sequence[Sequence[int]]], most: int) -> None:
        """Add the nodes' slots up over the domains; `most` is what the largest node takes when empty."""
        self.by_node = by_node
        self.most = most
        self.total = sum(by_node)
        self.mask = as_bits([slots > 0 for slots in by_node])
        self.by_domain = [
            [sum(by_node[nodes[0] : nodes[-1] + 1]) for nodes in domains] for domains in domain_nodes
        ]  # the nodes of a domain are neighbours

    def copy(self) -> SlotTable:
        """An independent copy."""
        other = object.__new__(SlotTable)
        other.by_node = self.by_node.copy()
        other.most = self.most
        other.total = self.total
        other.mask = self.mask
        other.by_domain = [totals.copy() for totals in self.by_domain]
        return other

    def update(self, index: int, slots: int, domain_of: Sequence[Sequence[int]]) -> None:
        """The node takes so many workers now."""
        change = slots - self.by_node[index]
        if not change:
            return
        self.by_node[index] = slots
        self.total += change
        bit = 1 << index
        self.mask = self.mask | bit if slots else self.mask & ~bit
        for totals, domains in zip(self.by_domain, domain_of, strict=True):
            totals[domains[index]] += change


class PoolCapacity:
    """The free amounts of a pool's nodes, its shared storage and its power."""

    def __init__(self, pool: PoolView, nodes: Iterable[NodeView]) -> None:
        """All nodes of the pool, empty; those that are not usable are known and take nothing."""
        self.pool = pool
        self.nodes = sorted(nodes, key=lambda node: (node.location, node.node))
        self.index = {node.node: number for number, node in enumerate(self.nodes)}
        self.domain_of, self.domain_nodes = _domains(self.nodes, len(pool.levels))
        self.is_usable = [node.is_usable for node in self.nodes]
        self.usable = as_bits(self.is_usable)
        self._out_of_use = [number for number, is_usable in enumerate(self.is_usable) if not is_usable]
        self._sizes = {node.capacity for node in self.nodes}
        self._computes = list({node.compute for node in self.nodes})
        self._empty: list[PoolCapacity] = []  # one, when first asked for
        self._clear()

    def _clear(self) -> None:
        """Nobody holds anything."""
        self._cpus = [node.capacity.cpus for node in self.nodes]
        self._memory = [node.capacity.memory_gib for node in self.nodes]
        self._scratch = [node.capacity.scratch_gib for node in self.nodes]
        self._gpus = [node.capacity.gpus for node in self.nodes]
        self._mig = {number: dict(node.capacity.mig) for number, node in enumerate(self.nodes) if node.capacity.mig}
        self._devices: dict[int, Devices] = {}
        self._holders = [0] * len(self.nodes)
        self.storage_gib = self.pool.storage_gib
        self.storage_gbps = self.pool.storage_gbps
        self.watts = 0.0
        self._tables: dict[Resources, SlotTable] = {}
        self._buckets: dict[int, int] = {}  # made when first asked for, and kept up from then on

    def copy(self) -> PoolCapacity:
        """An independent copy, e.g. of how things will be at another time."""
        if not self._buckets:  # before several copies each sort their own
            self._sort_into_buckets()
        other = object.__new__(PoolCapacity)
        other.__dict__.update(self.__dict__)
        for name in ("_cpus", "_memory", "_scratch", "_gpus", "_holders", "_buckets"):
            setattr(other, name, getattr(self, name).copy())
        other._mig = {number: counts.copy() for number, counts in self._mig.items()}
        other._devices = {number: devices.copy() for number, devices in self._devices.items()}
        other._tables = {each: table.copy() for each, table in self._tables.items()}
        return other

    @property
    def empty(self) -> PoolCapacity:
        """The same pool with nobody in it, of which a pool and its copies have one; for asking only."""
        if not self._empty:
            other = object.__new__(PoolCapacity)
            other.__dict__.update(self.__dict__)
            other._clear()
            other._empty = []  # itself in it would be a cycle, which outlives the pass
            self._empty.append(other)
        return self._empty[0]

    # --- asking

    def table(self, each: Resources) -> SlotTable:
        """The slots for workers that ask `each`."""
        found = self._tables.get(each)
        if found is None:
            most = max((each.times_in(size) for size in self._sizes), default=0)
            found = self._tables[each] = SlotTable(self._all_slots(each), self.domain_nodes, most)
        return found

    def tightest_first(self, mask: int) -> Iterator[int]:
        """The nodes in `mask` in sets of equal free GPUs (or CPUs), least first."""
        if not self._buckets:
            self._sort_into_buckets()
        for bucket in sorted(self._buckets):
            found = self._buckets[bucket] & mask
            if found:
                yield found

    def _sort_into_buckets(self) -> None:
        buckets: dict[int, int] = {}
        for number, bucket in enumerate(map(self._bucket, range(len(self.nodes)))):
            buckets[bucket] = buckets.get(bucket, 0) | 1 << number
        self._buckets = buckets

    def free(self) -> Resources:
        """What the usable nodes have free together."""
        total = Resources(
            sum(compress(self._cpus, self.is_usable)),
            sum(compress(self._memory, self.is_usable)),
            sum(compress(self._gpus, self.is_usable)),
            sum(compress(self._scratch, self.is_usable)),
        )
        for number in self._devices.keys() | self._mig.keys():
            if self.is_usable[number]:
                free = self.free_of(number)
                total = total + Resources(gpu_share=free.gpu_share, mig=free.mig)
        return total

    def free_of(self, number: int) -> Resources:
        """What one node has free."""
        devices = self._devices.get(number)
        return Resources(
            self._cpus[number],
            self._memory[number],
            self._gpus[number],
            self._scratch[number],
            devices.open_share() if devices else 0.0,
            tuple(sorted(self._mig.get(number, {}).items())),
        )

    def devices_of(self, number: int) -> Devices | None:
        """The shares in use on a node; None if none are."""
        return self._devices.get(number)

    def _all_slots(self, each: Resources) -> list[int]:
        """The slots of every node; nodes in the same state, which are many, are reckoned once."""
        states = list(zip(self._cpus, self._memory, self._scratch, self._gpus, strict=True))
        apart = self._devices.keys() | self._mig.keys()  # whose slots rest on more than that
        one_of_each = dict(zip(states, range(len(states)), strict=True))
        if apart:
            one_of_each = {state: number for number, state in enumerate(states) if number not in apart}
        slots_of = dict.fromkeys(states, 0)
        slots_of |= {state: self._slots(each, number) for state, number in one_of_each.items()}
        slots = [slots_of[state] for state in states]
        for number in apart:
            slots[number] = self._slots(each, number)
        for number in self._out_of_use:
            slots[number] = 0
        return slots

    def _slots(self, each: Resources, number: int) -> int:
        slots = PLENTY
        cpus = self._cpus[number]
        if each.gpus:
            slots = self._gpus[number] // each.gpus
        elif self.pool.cpu_reserve_per_gpu and not each.gpu_share and not each.mig:
            cpus -= self.pool.cpu_reserve_per_gpu * self._gpus[number]  # kept for gangs that will use those GPUs
        if each.cpus:
            slots = min(slots, int((cpus + TINY) / each.cpus))
        if each.memory_gib:
            slots = min(slots, int((self._memory[number] + TINY) / each.memory_gib))
        if each.scratch_gib:
            slots = min(slots, int((self._scratch[number] + TINY) / each.scratch_gib))
        if each.gpu_share:
            slots = min(slots, split(each.gpu_share, self._gpus[number], self._devices.get(number)))
        for profile, count in each.mig:
            slots = min(slots, self._mig.get(number, {}).get(profile, 0) // count)
        return max(slots, 0)

    def _bucket(self, number: int) -> int:
        has_gpus = self.nodes[number].capacity.gpus
        return max(0, min(BUCKETS - 1, self._gpus[number] if has_gpus else int(self._cpus[number] + TINY)))

    def compute_of(self, placement: Placement) -> float:
        """The speed at which a gang runs there: that of its slowest node; 1 if none is known any more."""
        if len(self._computes) == 1:
            return self._computes[0]
        numbers = [self.index[node] for node in placement.nodes if node in self.index]
        return min((self.nodes[number].compute for number in numbers), default=1.0)

    # --- moving

    def take(self, number: int, each: Resources, workers: int, devices: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Let `workers` hold what they ask on the node; returns the devices that their shares are of."""
        return self._move(number, each, workers, devices, -1)

    def give(self, number: int, each: Resources, workers: int, devices: tuple[int, ...] = ()) -> None:
        """The reverse of `take`."""
        self._move(number, each, workers, devices, 1)

    def _move(self, number: int, each: Resources, workers: int, devices: tuple[int, ...], sign: int) -> tuple[int, ...]:
        change = sign * workers
        before = self._bucket(number) if self._buckets else -1
        self._cpus[number] += change * each.cpus
        self._memory[number] += change * each.memory_gib
        self._scratch[number] += change * each.scratch_gib
        self._gpus[number] += change * each.gpus
        if each.gpu_share:
            devices = self._move_shares(number, each.gpu_share, workers, devices, sign)
        for profile, count in each.mig:
            counts = self._mig.setdefault(number, {})
            counts[profile] = counts.get(profile, 0) + change * count
        self._count_holders(number, -change)
        if before >= 0:
            after = self._bucket(number)
            if after != before:
                bit = 1 << number
                self._buckets[before] &= ~bit
                self._buckets[after] = self._buckets.get(after, 0) | bit
        if self._tables and self.is_usable[number]:
            for asked, table in self._tables.items():
                table.update(number, self._slots(asked, number), self.domain_of)
        return devices

    def _move_shares(
        self, number: int, share: float, workers: int, devices: tuple[int, ...], sign: int
    ) -> tuple[int, ...]:
        known = self._devices.get(number)
        if known is None:
            known = self._devices[number] = Devices(self.nodes[number].capacity.gpus)
        if sign < 0:
            devices, opened = known.take(share, workers, devices)
            self._gpus[number] -= opened
        else:
            self._gpus[number] += known.give(share, devices)
        return devices

    def _count_holders(self, number: int, change: int) -> None:
        had = self._holders[number]
        self._holders[number] = had + change
        if not had or not had + change:
            self.watts += (1 if change > 0 else -1) * self.nodes[number].watts

    def new_watts(self, numbers: Iterable[int]) -> float:
        """By how much the power in use grows when these nodes are used."""
        return sum(self.nodes[number].watts for number in set(numbers) if not self._holders[number])

    def load(self, gangs: Iterable[tuple[GangRequest, Placement]]) -> None:
        """Let each gang hold its placement: as `move_gang`, where nothing was asked yet and so no table is kept up."""
        index, cpus, memory, scratch, gpus = self.index, self._cpus, self._memory, self._scratch, self._gpus
        for request, placement in gangs:
            each_of = request.each
            for placed in placement.workers:
                number, each, workers = index.get(placed.node), each_of[placed.group], placed.workers
                if number is None:
                    continue
                if each.gpu_share or each.mig:
                    self._move(number, each, workers, placed.devices, -1)
                    continue
                cpus[number] -= workers * each.cpus
                memory[number] -= workers * each.memory_gib
                scratch[number] -= workers * each.scratch_gib
                gpus[number] -= workers * each.gpus
                self._count_holders(number, workers)
            self.storage_gib -= request.storage_gib
            self.storage_gbps -= request.storage_gbps

    def move_gang(self, request: GangRequest, placement: Placement, sign: int) -> None:
        """Let a gang hold (-1) or free (1) its placement; nodes that are not known any more are passed over."""
        index, each_of = self.index, request.each
        for placed in placement.workers:
            number = index.get(placed.node)
            if number is not None:
                self._move(number, each_of[placed.group], placed.workers, placed.devices, sign)
        self.storage_gib += sign * request.storage_gib
        self.storage_gbps += sign * request.storage_gbps


def _domains(nodes: Sequence[NodeView], depth: int) -> tuple[list[list[int]], list[list[list[int]]]]:
    """For each level: the domain of each node, and the nodes of each domain; a domain is named by its whole path."""
    domain_of: list[list[int]] = []
    domain_nodes: list[list[list[int]]] = []
    for level in range(depth):
        paths = [node.location[: level + 1] for node in nodes]
        starts = [number for number, path in enumerate(paths) if not number or path != paths[number - 1]]
        members = [list(range(*ends)) for ends in pairwise([*starts, len(nodes)])]  # they are sorted by location
        domain_of.append([domain for domain, numbers in enumerate(members) for _ in numbers])
        domain_nodes.append(members)
    return domain_of, domain_nodes
