"""Where the workers of one gang go: all of them under the smallest subtree that holds them, or nowhere.

Of several subtrees the one is taken that is left with the least, and of several nodes the fullest, so large holes stay
whole. Nodes are listed in the order of the tree, which makes neighbours in the ring of ranks neighbours in the fabric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gang_scheduler.capacity import PoolCapacity, SlotTable
from gang_scheduler.gang import GangRequest, PlacedWorkers, Placement, WorkerGroup

Spot = tuple[int, int, int]  # group number, node number, workers
CLOSE_LOOK = 16  # nodes of one tightness that are compared by what their domains have left


@dataclass(frozen=True, slots=True)
class Ask:
    """The worker groups to be placed, with the counts to place now (an elastic gang may get fewer than it asks for)."""

    groups: tuple[WorkerGroup, ...]
    counts: tuple[int, ...]
    level: str = ""
    is_required: bool = False

    @staticmethod
    def of(request: GangRequest, *, is_fewest: bool = False) -> Ask:
        """All workers of the request, or the fewest that it starts with."""
        groups = request.worker_groups
        counts = tuple(group.fewest if is_fewest else group.workers for group in groups)
        wish = request.topology
        return Ask(groups, counts, wish.level if wish else "", wish.is_required if wish else False)


def find_spots(ask: Ask, capacity: PoolCapacity, allowed: int | None = None) -> list[Spot] | None:
    """Where the workers go, or None; `capacity` is left as it was.

    Args:
        ask: the workers.
        capacity: the pool as it is at the moment in question.
        allowed: the nodes that may be used; None is all usable ones.
    """
    tables = [capacity.table(group.each) for group in ask.groups]
    if any(table.total < count for table, count in zip(tables, ask.counts, strict=True)):
        return None
    if allowed is not None:
        allowed &= capacity.usable
        if not allowed:
            return None
    levels = capacity.pool.levels
    widest = len(levels) - levels.index(ask.level) if ask.is_required and ask.level in levels else len(levels) + 1
    if ask.is_required and ask.level == "node":
        widest = 0
    for step in range(widest + 1):  # 0: one node, then the narrowest level, at last the pool
        spots = _within(step, ask, tables, capacity, allowed)
        if spots is not None:
            return sorted(spots, key=lambda spot: (spot[1], spot[0]))
    return None


def _within(
    step: int, ask: Ask, tables: Sequence[SlotTable], capacity: PoolCapacity, allowed: int | None
) -> list[Spot] | None:
    if step == 0:
        return _on_one_node(ask, tables, capacity, allowed)
    depth = len(capacity.pool.levels) - step
    if depth < 0:
        return _fill(ask, tables, capacity, allowed, range(len(capacity.nodes)), 0)
    for domain in _candidates(ask, tables, capacity, allowed, depth):
        spots = _fill(ask, tables, capacity, allowed, capacity.domain_nodes[depth][domain], depth + 1)
        if spots is not None:
            return spots
    return None


def _candidates(
    ask: Ask, tables: Sequence[SlotTable], capacity: PoolCapacity, allowed: int | None, depth: int
) -> list[int]:
    """The domains of the level that have the slots, least left over first."""
    if allowed is None:
        totals = [table.by_domain[depth] for table in tables]
    else:
        totals = [_allowed_totals(table, capacity, allowed, depth) for table in tables]
    first, count = totals[0], ask.counts[0]
    if len(totals) == 1:
        fitting = [(slots, domain) for domain, slots in enumerate(first) if slots >= count]
        return [min(fitting)[1]] if fitting else []
    fitting = [
        (slots, domain)
        for domain, slots in enumerate(first)
        if slots >= count
        and all(other[domain] >= wanted for other, wanted in zip(totals[1:], ask.counts[1:], strict=True))
    ]
    return [domain for _, domain in sorted(fitting)]


def _allowed_totals(table: SlotTable, capacity: PoolCapacity, allowed: int, depth: int) -> list[int]:
    totals = [0] * len(capacity.domain_nodes[depth])
    for number in members(table.mask & allowed):
        totals[capacity.domain_of[depth][number]] += table.by_node[number]
    return totals


def _on_one_node(
    ask: Ask, tables: Sequence[SlotTable], capacity: PoolCapacity, allowed: int | None
) -> list[Spot] | None:
    mask = -1 if allowed is None else allowed
    for table, count in zip(tables, ask.counts, strict=True):
        if count > table.most:
            return None
        mask &= table.mask
    if not mask:
        return None
    for alike in capacity.tightest_first(mask):
        fitting: list[tuple[tuple[int, ...], int]] = []
        for number in members(alike):
            if tables[0].by_node[number] < ask.counts[0]:
                continue
            if len(tables) > 1 and not _all_fit(ask, capacity, number):
                continue
            left = tuple(
                tables[0].by_domain[depth][domains[number]]
                for depth, domains in reversed(list(enumerate(capacity.domain_of)))
            )
            fitting.append((left, number))
            if len(fitting) >= CLOSE_LOOK:
                break
        if fitting:
            number = min(fitting)[1]
            return [(group, number, count) for group, count in enumerate(ask.counts) if count]
    return None


def _all_fit(ask: Ask, capacity: PoolCapacity, number: int) -> bool:
    """True if all groups find room on the node together."""
    taken: list[tuple[int, tuple[int, ...]]] = []
    fits = True
    for group, count in enumerate(ask.counts):
        each = ask.groups[group].each
        if capacity.table(each).by_node[number] < count:
            fits = False
            break
        taken.append((group, capacity.take(number, each, count)))
    for group, devices in taken:
        capacity.give(number, ask.groups[group].each, ask.counts[group], devices)
    return fits


def _fill(
    ask: Ask,
    tables: Sequence[SlotTable],
    capacity: PoolCapacity,
    allowed: int | None,
    nodes: Sequence[int],
    depth: int,
) -> list[Spot] | None:
    """Place each group in turn on the nodes of one domain; what does not come out even is undone."""
    if len(ask.groups) == 1:
        chosen = _spread(ask.counts[0], tables[0], capacity, allowed, nodes, depth)
        return None if chosen is None else [(0, number, count) for number, count in chosen]
    spots: list[Spot] = []
    taken: list[tuple[int, int, int, tuple[int, ...]]] = []
    is_whole = True
    for group, count in enumerate(ask.counts):
        each = ask.groups[group].each
        chosen = _spread(count, capacity.table(each), capacity, allowed, nodes, depth)
        if chosen is None:
            is_whole = False
            break
        for number, workers in chosen:
            taken.append((group, number, workers, capacity.take(number, each, workers)))
            spots.append((group, number, workers))
    for group, number, workers, devices in taken:
        capacity.give(number, ask.groups[group].each, workers, devices)
    return spots if is_whole else None


def _spread(
    count: int, table: SlotTable, capacity: PoolCapacity, allowed: int | None, nodes: Sequence[int], depth: int
) -> list[tuple[int, int]] | None:
    """Workers over the nodes of a domain: its roomiest subdomains whole, then the one that just holds the rest."""
    by_node = table.by_node
    if allowed is not None:
        nodes = [number for number in nodes if allowed >> number & 1]
    if depth >= len(capacity.domain_of):
        return _over_nodes(count, by_node, nodes)
    sizes = _sizes(table, capacity, allowed, nodes, depth)
    if sum(sizes.values()) < count:
        return None
    chosen: list[tuple[int, int]] = []
    left = count
    while left:
        holding = [(size, domain) for domain, size in sizes.items() if size >= left]
        domain = min(holding)[1] if holding else min((-size, domain) for domain, size in sizes.items())[1]
        part = min(left, sizes.pop(domain))
        found = _spread(part, table, capacity, allowed, capacity.domain_nodes[depth][domain], depth + 1)
        assert found is not None
        chosen += found
        left -= part
    return chosen


def _sizes(
    table: SlotTable, capacity: PoolCapacity, allowed: int | None, nodes: Sequence[int], depth: int
) -> dict[int, int]:
    """The slots of each domain at this depth that has any; `nodes` are those of one domain above, as far as allowed."""
    domains = capacity.domain_of[depth]
    if allowed is None:
        totals = table.by_domain[depth]
        inside = range(domains[nodes[0]], domains[nodes[-1]] + 1) if nodes else ()
        return {domain: totals[domain] for domain in inside if totals[domain]}
    sizes: dict[int, int] = {}
    for number in nodes:
        if table.by_node[number]:
            sizes[domains[number]] = sizes.get(domains[number], 0) + table.by_node[number]
    return sizes


def _over_nodes(count: int, by_node: Sequence[int], nodes: Sequence[int]) -> list[tuple[int, int]] | None:
    """Roomiest nodes whole, then the tightest that holds the rest."""
    open_nodes = sorted(((by_node[number], number) for number in nodes if by_node[number]), key=_roomiest)
    if sum(slots for slots, _ in open_nodes) < count:
        return None
    chosen: list[tuple[int, int]] = []
    left = count
    for position, (slots, number) in enumerate(open_nodes):
        if slots >= left:
            rest = open_nodes[position:]
            tightest = min((room, other) for room, other in rest if room >= left)[1]
            return [*chosen, (tightest, left)]
        chosen.append((number, slots))
        left -= slots
    return None if left else chosen


def _roomiest(slots_and_number: tuple[int, int]) -> tuple[int, int]:
    return -slots_and_number[0], slots_and_number[1]


def members(mask: int) -> Iterator[int]:
    """The numbers whose bits are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def hold(request: GangRequest, spots: Sequence[Spot], capacity: PoolCapacity) -> Placement:
    """Take the spots; returns them as a placement, in rank order."""
    placed: list[PlacedWorkers] = []
    for group, number, workers in spots:
        each = request.worker_groups[group].each
        devices = capacity.take(number, each, workers)
        placed.append(PlacedWorkers(capacity.nodes[number].node, request.worker_groups[group].name, workers, devices))
    capacity.storage_gib -= request.storage_gib
    capacity.storage_gbps -= request.storage_gbps
    return Placement(capacity.pool.name, tuple(placed))
