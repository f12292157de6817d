"""Where the workers of one gang go: the whole gang, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping

from gang_scheduler.gang import GangRequest, PlacedWorkers, Placement
from gang_scheduler.resources import Resources


def place(request: GangRequest, free: Mapping[str, Resources]) -> Placement | None:
    """Place every worker, on one node if one holds them all, else spread over nodes in the order of their names.

    Returns None if not all workers find a place. A spread that needs groups to be mixed cleverly may be missed;
    it is missed in the empty pool as well, so such a gang is refused rather than left waiting.
    """
    nodes = sorted(free)
    for node in nodes:
        if request.total.fits_in(free[node]):
            return Placement(
                request.gang_pool,
                tuple(PlacedWorkers(node, group.name, group.workers) for group in request.worker_groups),
            )
    left = dict(free)
    placed: list[PlacedWorkers] = []
    for group in request.worker_groups:
        missing = group.workers
        for node in nodes:
            count = min(missing, group.each.times_in(left[node]))
            if count > 0:
                left[node] = left[node] - group.each * count
                placed.append(PlacedWorkers(node, group.name, count))
                missing -= count
        if missing:
            return None
    return Placement(request.gang_pool, tuple(placed))


def take(free: Mapping[str, Resources], request: GangRequest, placement: Placement) -> dict[str, Resources]:
    """What is left free; nodes that are not in `free` (cordoned or gone) are passed over."""
    each = {group.name: group.each for group in request.worker_groups}
    left = dict(free)
    for placed in placement.workers:
        if placed.node in left:
            left[placed.node] = left[placed.node] - each[placed.group] * placed.workers
    return left
