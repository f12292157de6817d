"""Who in a pool may be asked to stop for whom, cheapest first; looked up once a pass, since many gangs ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gang_scheduler.actions import StopReason
from gang_scheduler.board import Board, held_amounts
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.gang_state import GangState
from gang_scheduler.quota_book import QuotaBook
from gang_scheduler.resources import Resources

STOPPABLE = frozenset({GangState.STARTING, GangState.RUNNING})


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that makes room, why it may be asked to, and what it holds on each node (by number)."""

    entry: Entry
    reason: StopReason
    parts: tuple[tuple[int, Resources], ...]


@dataclass(slots=True)
class _Holder:
    """What the rules look at."""

    entry: Entry
    priority: int
    lost_s: float
    rank: float


class VictimList:
    """The gangs of a pool that may be stopped at all: they run, are preemptible, and stop not already."""

    def __init__(self, board: Board, pool: str) -> None:
        """Those of the board."""
        self._policy = board.policy
        self._pool = pool
        self._stopped: set[AttemptKey] = set()
        ranks = board.policy.ranks_who_runs
        found: list[_Holder] = []
        self._board = board
        self._capacity = capacity = board.pools[pool]
        for entry in board.holding.values():
            placement = entry.placement
            if placement is None or placement.pool != pool or entry.stops or entry.state not in STOPPABLE:
                continue
            if not entry.request.is_preemptible:
                continue
            rank = entry.rank(board.now_s, board.policy) if ranks and not entry.is_aged else 0.0
            found.append(_Holder(entry, entry.request.gang_priority, entry.lost_s(board.now_s), rank))
        self._holders = sorted(found, key=lambda holder: (holder.priority, holder.lost_s, holder.entry.key))
        self._harvesters = [holder for holder in self._holders if _harvests(holder.entry, capacity)]
        self._of_queue: dict[str, list[_Holder]] = {}
        for holder in self._holders:
            self._of_queue.setdefault(holder.entry.queue, []).append(holder)
        self._reclaimable: dict[tuple[str, int], list[_Holder]] = {}
        by_rank = [holder for holder in self._holders if ranks and self._has_run(holder) and not holder.entry.is_aged]
        self._by_rank = sorted(by_rank, key=lambda holder: (-holder.rank, holder.entry.key))

    def stop(self, entry: Entry) -> None:
        """It is asked to stop: nobody needs to ask again."""
        self._stopped.add(entry.key)

    def for_gang(self, entry: Entry, board: Board, book: QuotaBook) -> Iterator[Victim]:
        """Who may be asked to stop for the gang, in this order.

        Harvesters of spare CPUs of no higher priority, if it asks GPUs; those whose queue borrowed what its own queue
        owns, harvesting queues first, then the one with the largest share; lower priorities, lowest first, each by the
        work that a stop would lose; at last those of its own priority that the order puts behind it, farthest behind
        first.
        """
        told = set(self._stopped)
        for holder, reason in self._in_turn(entry, board, book):
            if holder.entry.key not in told:
                told.add(holder.entry.key)
                yield Victim(holder.entry, reason, _parts(holder.entry, self._capacity))

    def _in_turn(self, entry: Entry, board: Board, book: QuotaBook) -> Iterator[tuple[_Holder, StopReason]]:
        priority = entry.request.gang_priority
        if entry.total.gpu_count:
            for holder in self._harvesters:
                if holder.priority <= priority:
                    yield holder, StopReason.PREEMPTED
        yield from self._who_borrowed(entry, book)
        if self._policy.preempts_by_priority:
            for holder in self._holders:
                if holder.priority >= priority:
                    break
                yield holder, StopReason.PREEMPTED
        if not self._by_rank:
            return
        limit = self._policy.far_behind(entry.rank(board.now_s, self._policy))
        for holder in self._by_rank:
            if holder.rank < limit and not (entry.is_aged and holder.rank > 0):
                break
            if holder.priority == priority:
                yield holder, StopReason.PREEMPTED

    def _who_borrowed(self, entry: Entry, book: QuotaBook) -> Iterator[tuple[_Holder, StopReason]]:
        """Those of other queues of the cohort that are above their nominal quota, if the gang stays within its own."""
        owns = book.has_quota(entry.queue, self._pool)
        if not self._policy.reclaims_quota or not owns:
            return
        if book.borrows(entry.queue, self._pool, entry.request.least_amounts):
            return
        lenders = [
            queue
            for name, queue in sorted(book.queues.items())
            if name in self._of_queue and name != entry.queue and book.are_of_one_cohort(entry.queue, name)
        ]
        if not any(book.borrows(queue.name, self._pool) for queue in lenders):
            return
        left = book.copy()
        for queue in sorted(lenders, key=lambda queue: (not queue.harvests_only, -book.share(queue.name))):
            if not left.borrows(queue.name, self._pool):
                continue
            for holder in self._of_lender(queue, entry.request.gang_priority):
                if holder.entry.key in self._stopped:
                    continue
                yield holder, StopReason.RECLAIMED
                left.charge(queue.name, self._pool, held_amounts(holder.entry), -1)
                if not left.borrows(queue.name, self._pool):
                    break

    def _has_run(self, holder: _Holder) -> bool:
        return holder.entry.has_had_its_run(self._board.now_s, self._policy)

    def _of_lender(self, queue: QueueView, priority: int) -> list[_Holder]:
        """Whom a gang of that priority may reclaim from the queue: nobody above it, who would take it right back."""
        found = self._reclaimable.get((queue.name, priority))
        if found is None:
            found = self._reclaimable[queue.name, priority] = [
                holder
                for holder in self._of_queue[queue.name]
                if holder.priority < priority
                or (holder.priority == priority and (queue.harvests_only or self._has_run(holder)))
            ]
        return found


def _parts(entry: Entry, capacity: PoolCapacity) -> tuple[tuple[int, Resources], ...]:
    assert entry.placement is not None
    each = entry.request.each
    parts: dict[int, Resources] = {}
    for placed in entry.placement.workers:
        number = capacity.index.get(placed.node)
        if number is not None:
            amount = each[placed.group] * placed.workers
            parts[number] = parts[number] + amount if number in parts else amount
    return tuple(parts.items())


def _harvests(entry: Entry, capacity: PoolCapacity) -> bool:
    """True if it uses spare CPUs of nodes with GPUs."""
    return entry.request.harvests and any(capacity.nodes[number].capacity.gpus for number, _ in _parts(entry, capacity))
