"""Spots for workers that ask a share of a GPU: where they leave the least that typical workers could not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.devices import MILLI, milli
from gang_scheduler.entry import Entry
from gang_scheduler.fragmentation import TypicalAsks
from gang_scheduler.placement import Ask, Spot, members
from gang_scheduler.resources import Resources
from gang_scheduler.sharing import NodeShare, ShareAsk, choose

_MIB_PER_GIB = 1024


def typical_asks(entries: Iterable[Entry]) -> TypicalAsks:
    """What the workers of these gangs ask of GPUs, and how many ask it."""
    counts: Counter[ShareAsk] = Counter()
    for entry in entries:
        for group in entry.request.worker_groups:
            if group.each.gpu_count:
                counts[share_ask(group.each)] += group.workers
    return TypicalAsks(counts)


def share_ask(each: Resources) -> ShareAsk:
    """One worker's ask in whole thousandths and MiB, rounded to the nearest."""
    gpus, per_gpu = (1, milli(each.gpu_share)) if each.gpu_share else (each.gpus, MILLI if each.gpus else 0)
    return ShareAsk(gpus, per_gpu, round(each.cpus * MILLI), round(each.memory_gib * _MIB_PER_GIB))


def find_shared_spots(ask: Ask, capacity: PoolCapacity, allowed: int | None, typical: TypicalAsks) -> list[Spot] | None:
    """The spots of the one worker group, whose workers ask shares; None if not all find one.

    Workers are placed one after the other, each where it wastes least beside those before it.
    """
    group, count = ask.groups[0], ask.counts[0]
    asked = share_ask(group.each)
    table = capacity.table(group.each)
    mask = table.mask if allowed is None else table.mask & allowed
    if table.total < count:
        return None
    taken: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(count):
        there = [(capacity.nodes[number].node, node_share(capacity, number)) for number in members(mask & table.mask)]
        chosen = choose(there, asked, typical)
        if chosen is None:
            break
        number = capacity.index[chosen[0]]
        taken.append((number, capacity.take(number, group.each, 1)))
    for number, devices in taken:
        capacity.give(number, group.each, 1, devices)
    if len(taken) < count:
        return None
    return [(0, number, workers) for number, workers in sorted(Counter(number for number, _ in taken).items())]


def node_share(capacity: PoolCapacity, number: int) -> NodeShare:
    """What is free on a node, device by device; those held whole come last, since only their number is known."""
    free = capacity.free_of(number)
    devices = capacity.devices_of(number)
    shared = tuple(left for left in devices.free if left) if devices else ()
    held = capacity.nodes[number].capacity.gpus - free.gpus - len(shared)
    return NodeShare(
        shared + (MILLI,) * free.gpus + (0,) * max(0, held),
        round(free.cpus * MILLI),
        round(free.memory_gib * _MIB_PER_GIB),
        capacity.nodes[number].gpu_model,
    )
