"""Whom to ask to stop so that a gang that waits can start: the cheapest whole gangs, and no more than needed."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from gang_scheduler.actions import StopReason
from gang_scheduler.board import Board, held
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fit, Fitter, lacks_power, lacks_storage
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import GangState
from gang_scheduler.placement import Ask, find_spots
from gang_scheduler.policy import Order
from gang_scheduler.quota_book import QuotaBook, amounts_of

_STOPPABLE = frozenset({GangState.STARTING, GangState.RUNNING})
_ROUNDS_TO_SPARE = 64  # victims that are tried to be spared again; more cost more than they are worth


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that makes room, and why it may be asked to."""

    entry: Entry
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who has to stop, and where the gang goes when they have."""

    victims: tuple[Victim, ...]
    fit: Fit


def evict_for(
    entry: Entry,
    board: Board,
    soon: PoolCapacity,
    book: QuotaBook,
    fitter: Fitter,
    stopped: Container[AttemptKey] = (),
) -> Eviction | None:
    """The victims in this pool that make room for the gang; None if all together would not.

    Args:
        entry: who waits and comes before them.
        board: the present.
        soon: the pool when those that were asked to stop have stopped, with who waits for that in their places.
        book: the quotas, likewise.
        fitter: of the pass.
        stopped: who was asked to stop in this pass.
    """
    candidates = [
        victim for victim in _candidates(entry, board, soon.pool.name, book) if victim.entry.key not in stopped
    ]
    if not candidates:
        return None
    then, charged = soon.copy(), book.copy()
    amounts = amounts_of(entry.request.total)
    chosen: list[Victim] = []
    for victim in candidates:
        _remove(victim.entry, then, charged)
        chosen.append(victim)
        fit = _fit(entry, then, charged, amounts, fitter)
        if fit is not None:
            return _least(entry, chosen, fit, then, charged, amounts, fitter)
    return None


def _candidates(entry: Entry, board: Board, pool: str, book: QuotaBook) -> list[Victim]:
    amounts = amounts_of(entry.request.total)
    owns = book.has_quota(entry.queue, pool) and not book.borrows(entry.queue, pool, amounts)
    rank = entry.rank(board.now_s, board.policy)
    found: list[tuple[tuple[object, ...], Victim]] = []
    for other in board.holding.values():
        placement = other.placement
        if placement is None or placement.pool != pool or other.stops or other.state not in _STOPPABLE:
            continue
        if not other.request.is_preemptible:
            continue
        reason, order = _why(entry, other, rank, board, pool, owns)
        if reason is not None:
            found.append(((*order, other.key), Victim(other, reason)))
    return [victim for _, victim in sorted(found, key=lambda item: item[0])]


def _why(
    entry: Entry, other: Entry, rank: float, board: Board, pool: str, owns: bool
) -> tuple[StopReason | None, tuple[float, ...]]:
    """Why the other may be asked to stop for the gang, if so, and its turn among those that may (least first).

    Harvesters go first, then who borrowed what the gang's queue owns, then lower priorities, lowest first, each by the
    work that their stop would lose; at last those that only the order puts behind, those farthest behind first.
    """
    policy = board.policy
    lost = other.lost_s(board.now_s)
    if entry.request.total.gpu_count and harvests(other, board, pool):
        return StopReason.PREEMPTED, (0.0, 0.0, lost)
    lower = other.request.gang_priority < entry.request.gang_priority
    has_run = other.ran_s(board.now_s) >= policy.min_run.total_seconds()
    is_harvest_queue = other.queue in board.quotas.queues and board.quotas.queues[other.queue].harvests_only
    borrowed = board.quotas.are_of_one_cohort(entry.queue, other.queue) and board.quotas.borrows(other.queue, pool)
    if policy.reclaims_quota and owns and borrowed and other.queue != entry.queue:
        may = is_harvest_queue or lower or (has_run and other.request.gang_priority <= entry.request.gang_priority)
        if may:
            return StopReason.RECLAIMED, (1.0 - is_harvest_queue, float(other.request.gang_priority), lost)
    if policy.preempts_by_priority and lower:
        return StopReason.PREEMPTED, (2.0, float(other.request.gang_priority), lost)
    same = other.request.gang_priority == entry.request.gang_priority
    if not policy.preempts_by_order or not same or not has_run or policy.order not in (Order.SRSF, Order.LAS):
        return None, ()
    if other.is_aged:
        return None, ()
    behind = other.rank(board.now_s, policy)
    if behind > rank * policy.hysteresis or (entry.is_aged and behind > 0):
        return StopReason.PREEMPTED, (3.0, -behind)
    return None, ()


def harvests(entry: Entry, board: Board, pool: str) -> bool:
    """True if it uses spare CPUs of nodes with GPUs."""
    if not any(group.harvests_cpus for group in entry.request.worker_groups) or entry.request.total.gpu_count:
        return False
    capacity = board.pools[pool]
    nodes = entry.placement.nodes if entry.placement else ()
    return any(capacity.nodes[capacity.index[node]].capacity.gpus for node in nodes if node in capacity.index)


def _fit(entry: Entry, then: PoolCapacity, charged: QuotaBook, amounts: dict[str, float], fitter: Fitter) -> Fit | None:
    if charged.short(entry.queue, then.pool.name, amounts) is not None or lacks_storage(entry, then):
        return None
    fit = fitter.fit(entry, then, is_alone=False)
    return None if fit is None or lacks_power(fit.spots, then) else fit


def _least(
    entry: Entry,
    chosen: Sequence[Victim],
    fit: Fit,
    then: PoolCapacity,
    charged: QuotaBook,
    amounts: dict[str, float],
    fitter: Fitter,
) -> Eviction:
    """Spare again, dearest first, each without whom the gang still fits; the last one chosen is needed."""
    needed = [chosen[-1]]
    spared = 0
    for victim in reversed(chosen[:-1]):
        if spared >= _ROUNDS_TO_SPARE:
            needed.append(victim)
            continue
        spared += 1
        _put_back(victim.entry, then, charged)
        without = _fit(entry, then, charged, amounts, fitter)
        if without is None:
            _remove(victim.entry, then, charged)
            needed.append(victim)
        else:
            fit = without
    return Eviction(tuple(_shrinking(victim, fit, then) for victim in reversed(needed)), fit)


def _shrinking(victim: Victim, fit: Fit, then: PoolCapacity) -> Victim:
    """An elastic gang is asked to go on with fewer workers if those still fit beside the one it makes room for."""
    request, placement = victim.entry.request, victim.entry.placement
    if not request.is_elastic or placement is None:
        return victim
    fewest = Ask.of(request, is_fewest=True)
    if sum(placed.workers for placed in placement.workers) <= sum(fewest.counts):
        return victim
    taken = {number for _, number, _ in fit.spots}
    beside = sum(1 << number for number in range(len(then.nodes)) if number not in taken)
    return Victim(victim.entry, StopReason.SHRINKS) if find_spots(fewest, then, beside) is not None else victim


def _remove(entry: Entry, then: PoolCapacity, charged: QuotaBook) -> None:
    assert entry.placement is not None
    then.move_gang(entry.request, entry.placement, 1)
    charged.charge(entry.queue, entry.placement.pool, amounts_of(held(entry, entry.placement)), -1)


def _put_back(entry: Entry, then: PoolCapacity, charged: QuotaBook) -> None:
    assert entry.placement is not None
    then.move_gang(entry.request, entry.placement, -1)
    charged.charge(entry.queue, entry.placement.pool, amounts_of(held(entry, entry.placement)), 1)
