"""Which nodes of a pool a gang takes: its wishes as a set of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gang_scheduler.capacity import PoolCapacity, as_bits
from gang_scheduler.gang import NO_WISHES, NodeWishes
from gang_scheduler.node import NodeView

Standing = Mapping[str, Sequence[int]]  # gang id -> the numbers of its nodes in the pool


def eligible_sets(wishes: NodeWishes, capacity: PoolCapacity, standing: Standing) -> list[int | None]:
    """The sets of nodes to try, in order: one for each GPU model that the gang takes; None is every usable node.

    Args:
        wishes: what the gang wants of its nodes.
        capacity: the pool.
        standing: where the gangs stand that it wants to be near to or apart from.
    """
    if wishes is NO_WISHES or wishes == NO_WISHES:
        return [None]
    allowed = _matching(capacity, lambda node: _meets(node, wishes))
    if wishes.near:
        allowed &= _around(wishes.near, wishes.spread_level, capacity, standing)
    if wishes.apart:
        allowed &= ~_around(wishes.apart, wishes.spread_level, capacity, standing)
    if not wishes.gpu_models:
        return _preferred_first(allowed, wishes, capacity)
    sets: list[int | None] = []
    for model in wishes.gpu_models:
        of_model = _matching(capacity, lambda node, model=model: node.gpu_model == model)  # type: ignore[misc]
        sets += _preferred_first(allowed & of_model, wishes, capacity)
    return sets


def _meets(node: NodeView, wishes: NodeWishes) -> bool:
    return (
        (not wishes.regions or node.region in wishes.regions)
        and node.node not in wishes.excluded
        and all(node.labels.get(label) == value for label, value in wishes.labels.items())
    )


def _preferred_first(allowed: int, wishes: NodeWishes, capacity: PoolCapacity) -> list[int | None]:
    """The preferred nodes alone, if there are any, then all that are allowed."""
    if not wishes.preferred_labels:
        return [allowed]
    wanted = wishes.preferred_labels.items()
    better = allowed & _matching(capacity, lambda node: all(node.labels.get(label) == value for label, value in wanted))
    return [better, allowed] if better else [allowed]


def _matching(capacity: PoolCapacity, is_wanted: Callable[[NodeView], bool]) -> int:
    return as_bits([ok and is_wanted(node) for ok, node in zip(capacity.is_usable, capacity.nodes, strict=True)])


def _around(gang_ids: Iterable[str], level: str, capacity: PoolCapacity, standing: Standing) -> int:
    """The nodes that share a domain of the level with any of the gangs."""
    found = 0
    for gang_id in gang_ids:
        for number in standing.get(gang_id, ()):
            for other in neighbours(number, level, capacity):
                found |= 1 << other
    return found


def neighbours(number: int, level: str, capacity: PoolCapacity) -> Sequence[int]:
    """The nodes of the domain that a node lies in; an unknown level is the node itself."""
    if level == "pool":
        return range(len(capacity.nodes))
    if level in capacity.pool.levels:
        depth = capacity.pool.levels.index(level)
        return capacity.domain_nodes[depth][capacity.domain_of[depth][number]]
    return (number,)
