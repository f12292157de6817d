"""Whom to ask to stop so that a gang that waits can start: the cheapest whole gangs, and no more than needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gang_scheduler.actions import StopReason
from gang_scheduler.board import Board, held
from gang_scheduler.capacity import PoolCapacity, as_bits
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fit, Fitter, lacks_power, lacks_storage
from gang_scheduler.placement import Ask, Spot, find_spots
from gang_scheduler.quota_book import QuotaBook, amounts_of
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
    amounts = amounts_of(entry.total)
    is_within_quota = book.short(entry.queue, soon.pool.name, amounts) is None
    if is_within_quota and not lacks_storage(entry, soon) and entry.total.gpu_share == 0:
        for allowed in fitter.eligible(entry, soon):
            found = _on_one_node(entry, victims.for_gang(entry, board, book), soon, allowed)
            if found is not None:
                return found
    charged = None if is_within_quota else book.copy()
    return _on_many(entry, victims.for_gang(entry, board, book), soon, charged, fitter)


def _on_one_node(
    entry: Entry, candidates: Iterator[Victim], soon: PoolCapacity, allowed: int | None
) -> Eviction | None:
    """The first node, as the victims come cheapest first, that holds the gang once its victims are gone."""
    asked = entry.total
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
                return _sparing(entry, on_node[number], number, free[number], soon)
    return None


def _sparing(
    entry: Entry, chosen: Sequence[Victim], number: int, free: Resources, soon: PoolCapacity
) -> Eviction | None:
    """Spare, dearest first, each victim on the node without whom the gang still fits."""
    needed = []
    for victim in reversed(chosen):
        part = next(amount for at, amount in victim.parts if at == number)
        if entry.total.fits_in(free - part):
            free = free - part
        else:
            needed.append(victim)
    ask = Ask.of(entry.request, is_fewest=True)
    spots = tuple((group, number, count) for group, count in enumerate(ask.counts) if count)
    if lacks_power(spots, soon):
        return None
    fit = Fit(spots, soon.nodes[number].compute, ask.counts == _whole(entry))
    return Eviction(_shrinking(reversed(needed), spots, soon, are_gone=False), fit)


def _whole(entry: Entry) -> tuple[int, ...]:
    return tuple(group.workers for group in entry.request.worker_groups)


def _on_many(
    entry: Entry, candidates: Iterator[Victim], soon: PoolCapacity, charged: QuotaBook | None, fitter: Fitter
) -> Eviction | None:
    """Add victims, cheapest first, until there are slots enough; then see whether the whole gang fits."""
    group = entry.request.worker_groups[0]
    table = soon.table(group.each)
    slots, amounts, next_try = table.total, amounts_of(entry.total), 0
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
            charged.charge(victim.entry.queue, soon.pool.name, amounts_of(held(victim.entry)), -1)
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
    amounts = amounts_of(entry.total)
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
    if charged is None:
        for victim in beside:
            _move(victim, then, charged, -1)
    else:  # what they hold of the quota may be needed
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
    return Eviction(_shrinking(reversed(needed), fit.spots, then, are_gone=True), fit)


def _move(victim: Victim, then: PoolCapacity, charged: QuotaBook | None, sign: int) -> None:
    assert victim.entry.placement is not None
    then.move_gang(victim.entry.request, victim.entry.placement, sign)
    if charged is not None:
        charged.charge(victim.entry.queue, then.pool.name, amounts_of(held(victim.entry)), -sign)


def _shrinking(
    victims: Iterator[Victim], spots: Sequence[Spot], then: PoolCapacity, *, are_gone: bool
) -> tuple[Victim, ...]:
    """An elastic gang is asked to go on with fewer workers if those still fit beside the one it makes room for."""
    return tuple(
        Victim(victim.entry, StopReason.SHRINKS, victim.parts)
        if victim.entry.request.is_elastic and _fits_smaller(victim.entry, spots, then, are_gone)
        else victim
        for victim in victims
    )


def _fits_smaller(entry: Entry, spots: Sequence[Spot], then: PoolCapacity, is_gone: bool) -> bool:
    fewest = Ask.of(entry.request, is_fewest=True)
    placement = entry.placement
    if placement is None or sum(placed.workers for placed in placement.workers) <= sum(fewest.counts):
        return False
    after = then
    if not is_gone:
        after = then.copy()
        after.move_gang(entry.request, placement, 1)
    taken = {number for _, number, _ in spots}
    beside = as_bits([number not in taken for number in range(len(then.nodes))])
    return find_spots(fewest, after, beside) is not None
