"""Reservations: capacity kept for a gang that waits, which nobody who passes it may delay.

A reservation says when its gang will start if the others end when expected, and holds the pool's capacity as it will
be then, with the gang in it. Whoever would still run at that moment must fit into that as well (EASY backfill:
Lifka, JSSPP'95; with a reservation for each who waits it is conservative backfill).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop

from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fitter, lacks_storage, still_fits
from gang_scheduler.gang import Placement
from gang_scheduler.placement import Spot, hold
from gang_scheduler.policy import Policy

Holder = tuple[float, Entry, Placement]  # until when, who, where


@dataclass(slots=True)
class Reservation:
    """The gang's start, its end, where, and the pool at its start (changed as others are let in)."""

    entry: Entry
    start_s: float
    end_s: float
    placement: Placement
    capacity: PoolCapacity
    nodes: int  # the set of its nodes

    def allows(self, entry: Entry, spots: Sequence[Spot], end_s: float) -> bool:
        """True if a gang at these spots until `end_s` does not delay it."""
        return end_s <= self.start_s or still_fits(entry, spots, self.capacity)

    def let_in(self, entry: Entry, spots: Sequence[Spot], end_s: float) -> None:
        """Somebody was let in at these spots."""
        if end_s > self.start_s:
            hold(entry.request, spots, self.capacity)


def reserve(
    entry: Entry,
    now_s: float,
    free: PoolCapacity,
    holders: Iterable[Holder],
    earlier: Sequence[Reservation],
    fitter: Fitter,
    policy: Policy,
) -> Reservation | None:
    """The earliest reservation that delays none of the earlier ones; None if it never fits by what is known.

    Args:
        entry: who waits.
        now_s: the present.
        free: the pool now.
        holders: who holds its capacity, until when.
        earlier: the reservations in the pool, which come first.
        fitter: of the pass.
        policy: for the expected durations.
    """
    changes = [(end_s, number, other, placement, 1) for number, (end_s, other, placement) in enumerate(holders)]
    for number, before in enumerate(earlier):
        changes.append((before.start_s, -1 - number, before.entry, before.placement, -1))
        changes.append((before.end_s, -1 - number, before.entry, before.placement, 1))
    heapify(changes)
    then = free.copy()
    at_s = now_s
    while True:
        while changes and changes[0][0] <= at_s:
            _, _, mover, placement, sign = heappop(changes)
            then.move_gang(mover.request, placement, sign)
        found = _at(entry, at_s, then, earlier, fitter, policy)
        if found is not None:
            return found
        if not changes:
            return None
        at_s = changes[0][0]


def _at(
    entry: Entry,
    at_s: float,
    then: PoolCapacity,
    earlier: Sequence[Reservation],
    fitter: Fitter,
    policy: Policy,
) -> Reservation | None:
    if lacks_storage(entry, then):
        return None
    fit = fitter.fit(entry, then)
    if fit is None:
        return None
    end_s = at_s + entry.overhead_s + entry.remaining_s(at_s, policy) / fit.compute
    later = [other for other in earlier if other.start_s >= at_s]
    if not all(other.allows(entry, fit.spots, end_s) for other in later):
        return None
    capacity = then.copy()
    placement = hold(entry.request, fit.spots, capacity)
    for other in later:
        other.let_in(entry, fit.spots, end_s)
    nodes = 0
    for _, number, _ in fit.spots:
        nodes |= 1 << number
    return Reservation(entry, at_s, end_s, placement, capacity, nodes)
