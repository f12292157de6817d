"""Whom to ask to stop so that a gang that waits can start: the cheapest whole gangs, and no more than needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gang_scheduler.actions import StopReason
from gang_scheduler.board import Board, held_amounts
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fit, Fitter, lacks_power, lacks_storage
from gang_scheduler.placement import Ask, Spot, hold
from gang_scheduler.quota_book import QuotaBook
from gang_scheduler.resources import Resources
from gang_scheduler.victims import Victim, VictimList

ROUNDS_TO_SPARE = 16  # victims that are tried to be spared one by one; more cost more than they are worth


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who has to stop, and where the gang goes when they have."""

    victims: tuple[Victim, ...]
    fit: Fit


def evict_for(
    entry: Entry, board: Board, soon: PoolCapacity, book: QuotaBook, fitter: Fitter, victims: VictimList
) -> Eviction | None:
    """The victims in this pool that make room for the gang; None if all together would not.

    Args:
        entry: who waits and comes before them.
        board: the present.
        soon: the pool when those that were asked to stop have stopped, with who waits for that in their places.
        book: the quotas, likewise.
        fitter: of the pass.
        victims: who may be asked to stop in the pool.
    """
    amounts = entry.request.least_amounts
    is_within_quota = book.short(entry.queue, soon.pool.name, amounts) is None
    is_plain = entry.total.gpu_share == 0 and not _minds_reserve(entry, soon)
    if is_within_quota and is_plain and not lacks_storage(entry, soon):
        for allowed in fitter.eligible(entry, soon):
            found = _on_one_node(entry, victims.for_gang(entry, board, book), soon, allowed, fitter)
            if found is not None:
                return found
    charged = None if is_within_quota else book.copy()
    return _on_many(entry, victims.for_gang(entry, board, book), soon, charged, fitter)


def _minds_reserve(entry: Entry, soon: PoolCapacity) -> bool:
    """True if CPUs that are free may still be kept for those who will use the GPUs beside them."""
    if not soon.pool.cpu_reserve_per_gpu:
        return False
    return any(not group.each.gpu_count and not group.each.mig for group in entry.request.worker_groups)


def _on_one_node(
    entry: Entry, candidates: Iterator[Victim], soon: PoolCapacity, allowed: int | None, fitter: Fitter
) -> Eviction | None:
    """The first node, as the victims come cheapest first, that holds the gang once its victims are gone."""
    asked = entry.request.least
    mask = soon.usable if allowed is None else allowed & soon.usable
    free: dict[int, Resources] = {}
    on_node: dict[int, list[Victim]] = {}
    hopeless = 0
    for victim in candidates:
        for number, amount in victim.parts:
            if not mask >> number & 1 or hopeless >> number & 1:
                continue
            if number not in free:
                if not asked.fits_in(soon.nodes[number].capacity):
                    hopeless |= 1 << number
                    continue
                free[number] = soon.free_of(number)
            free[number] = free[number] + amount
            on_node.setdefault(number, []).append(victim)
            if asked.fits_in(free[number]):
                return _sparing(entry, on_node[number], number, free[number], soon, fitter)
    return None


def _sparing(
    entry: Entry, chosen: Sequence[Victim], number: int, free: Resources, soon: PoolCapacity, fitter: Fitter
) -> Eviction | None:
    """Spare, dearest first, each victim on the node without whom the gang still fits."""
    needed = []
    for victim in reversed(chosen):
        part = next(amount for at, amount in victim.parts if at == number)
        if entry.request.least.fits_in(free - part):
            free = free - part
        else:
            needed.append(victim)
    ask = Ask.of(entry.request, is_fewest=True)
    spots = tuple((group, number, count) for group, count in enumerate(ask.counts) if count)
    if lacks_power(spots, soon):
        return None
    fit = Fit(spots, soon.nodes[number].compute, ask.counts == _whole(entry))
    then = soon
    if any(victim.entry.request.is_elastic for victim in needed):
        then = soon.copy()
        for victim in needed:
            _move(victim, then, None, 1)
    return Eviction(_shrinking(entry, needed[::-1], spots, then, fitter), fit)


def _whole(entry: Entry) -> tuple[int, ...]:
    return tuple(group.workers for group in entry.request.worker_groups)


def _on_many(
    entry: Entry, candidates: Iterator[Victim], soon: PoolCapacity, charged: QuotaBook | None, fitter: Fitter
) -> Eviction | None:
    """Add victims, cheapest first, until there are slots enough; then see whether the whole gang fits."""
    group = entry.request.worker_groups[0]
    table = soon.table(group.each)
    slots, amounts, next_try = table.total, entry.request.least_amounts, 0
    free: dict[int, Resources] = {}
    chosen: list[Victim] = []
    for victim in candidates:
        chosen.append(victim)
        for number, amount in victim.parts:
            if soon.is_usable[number]:
                had = group.each.times_in(free[number]) if number in free else table.by_node[number]
                free[number] = (free[number] if number in free else soon.free_of(number)) + amount
                slots += group.each.times_in(free[number]) - had
        if charged is not None:
            charged.charge(victim.entry.queue, soon.pool.name, held_amounts(victim.entry), -1)
            if charged.short(entry.queue, soon.pool.name, amounts) is not None:
                continue
        if slots < group.fewest or len(chosen) < next_try:
            continue
        found = _verified(entry, chosen, soon, charged, fitter)
        if found is not None:
            return found
        next_try = len(chosen) + max(1, len(chosen) // 2)  # trying is dear: the more there are, the less often
    return _verified(entry, chosen, soon, charged, fitter) if chosen and slots >= group.fewest else None


def _verified(
    entry: Entry, chosen: Sequence[Victim], soon: PoolCapacity, charged: QuotaBook | None, fitter: Fitter
) -> Eviction | None:
    then = soon.copy()
    for victim in chosen:
        assert victim.entry.placement is not None
        then.move_gang(victim.entry.request, victim.entry.placement, 1)
    fit = _fit(entry, then, charged, fitter)
    return None if fit is None else _least(entry, chosen, fit, then, charged, fitter)


def _fit(entry: Entry, then: PoolCapacity, charged: QuotaBook | None, fitter: Fitter) -> Fit | None:
    amounts = entry.request.least_amounts
    if charged is not None and charged.short(entry.queue, then.pool.name, amounts) is not None:
        return None
    if lacks_storage(entry, then):
        return None
    fit = fitter.fit(entry, then)
    return None if fit is None or lacks_power(fit.spots, then) else fit


def _least(
    entry: Entry,
    chosen: Sequence[Victim],
    fit: Fit,
    then: PoolCapacity,
    charged: QuotaBook | None,
    fitter: Fitter,
) -> Eviction:
    """Spare those that hold nothing where the gang goes, then, dearest first, each without whom it still fits."""
    goes_to = {number for _, number, _ in fit.spots}
    beside = [victim for victim in chosen if not any(number in goes_to for number, _ in victim.parts)]
    there = [victim for victim in chosen if any(number in goes_to for number, _ in victim.parts)]
    needed: list[Victim] = []
    if (
        charged is None
        and not entry.request.storage_gib
        and not entry.request.storage_gbps
        and not then.pool.power_cap_w
    ):
        for victim in beside:
            _move(victim, then, charged, -1)
    else:  # what they hold of the quota, the storage or the power may be needed
        there += beside
    for rounds, victim in enumerate(reversed(there)):
        if rounds >= ROUNDS_TO_SPARE:
            needed.append(victim)
            continue
        _move(victim, then, charged, -1)
        without = _fit(entry, then, charged, fitter)
        if without is None:
            _move(victim, then, charged, 1)
            needed.append(victim)
        else:
            fit = without
    return Eviction(_shrinking(entry, needed[::-1], fit.spots, then, fitter), fit)


def _move(victim: Victim, then: PoolCapacity, charged: QuotaBook | None, sign: int) -> None:
    assert victim.entry.placement is not None
    then.move_gang(victim.entry.request, victim.entry.placement, sign)
    if charged is not None:
        charged.charge(victim.entry.queue, then.pool.name, held_amounts(victim.entry), -sign)


def _shrinking(
    entry: Entry, victims: Sequence[Victim], spots: Sequence[Spot], then: PoolCapacity, fitter: Fitter
) -> tuple[Victim, ...]:
    """An elastic gang is asked to go on with fewer workers if those still fit beside the one it makes room for.

    `then` is the pool without the victims.
    """
    if not any(victim.entry.request.is_elastic for victim in victims):
        return tuple(victims)
    after = then.copy()
    hold(entry.request, spots, after)
    return tuple(_smaller(victim, after, fitter) for victim in victims)


def _smaller(victim: Victim, after: PoolCapacity, fitter: Fitter) -> Victim:
    entry, placement = victim.entry, victim.entry.placement
    fewest = sum(group.fewest for group in entry.request.worker_groups)
    if placement is None or sum(placed.workers for placed in placement.workers) <= fewest:
        return victim
    fit = None if lacks_storage(entry, after) else fitter.fit(entry, after)
    if fit is None:
        return victim
    hold(entry.request, fit.spots, after)
    return Victim(entry, StopReason.SHRINKS, victim.parts)
