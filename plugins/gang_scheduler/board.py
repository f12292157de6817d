"""What a planning pass works on: the pools' free capacity, the quotas, who holds what and who waits in which order.

`Board.of` makes it from a snapshot; a simulator keeps one and changes it with `add`, `place` and `drop` as things
happen, so that a replay runs the same code as a live plan without building the world anew for each event.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from math import inf
from operator import attrgetter

from gang_scheduler.ageing import Ageing
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.gang import NO_WISHES, GangRequest, Key, Kind, Placement
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.node import NodeView
from gang_scheduler.policy import DEFAULT_POLICY, Policy
from gang_scheduler.pool import PoolView
from gang_scheduler.quota_book import QuotaBook
from gang_scheduler.resources import Amounts, Resources
from gang_scheduler.snapshot import GangView, Snapshot


class Board:
    """Mutable; not for two threads."""

    def __init__(
        self,
        now_s: float,
        nodes: Iterable[NodeView],
        pools: Sequence[PoolView] = (),
        queues: Sequence[QueueView] = (),
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        """Empty pools; nobody waits."""
        self.now_s = now_s
        self.policy = policy
        self._ages_after_s = policy.ages_after_s
        by_pool: dict[str, list[NodeView]] = {pool.name: [] for pool in pools}
        for node in nodes:
            by_pool.setdefault(node.pool, []).append(node)
        known = {pool.name: pool for pool in pools}
        self.pools = {
            name: PoolCapacity(known.get(name) or PoolView(name), found) for name, found in sorted(by_pool.items())
        }
        self.quotas = QuotaBook(queues, _sizes(self.pools), policy.usage_half_life.total_seconds())
        self.entries: dict[Key, Entry] = {}
        self.holding: dict[Key, Entry] = {}
        self.lines: dict[str, list[tuple[tuple[object, ...], Entry]]] = {}
        self.waiting_of: dict[Kind, int] = {}
        self.submissions: dict[str, list[int]] = {}
        self.related = 0  # how many of those that wait look at where other gangs stand
        self.held_priorities: dict[int, int] = {}  # of those who hold capacity, and how many have each
        self._harvesters = 0
        self._ageing = Ageing()
        self._ages_at: list[tuple[float, Key]] = []

    @staticmethod
    def of(snapshot: Snapshot, *, without: Iterable[Key] = ()) -> Board:
        """The board of a snapshot; the gangs in `without` hold what they hold, and don't wait in line."""
        board = Board(snapshot.now.timestamp(), snapshot.nodes, snapshot.pools, snapshot.queues, snapshot.policy)
        aside = frozenset(without)
        views = sorted(snapshot.gangs, key=attrgetter("key"))
        entries = [Entry.of(view, board.now_s) for view in views]
        if board._ages_after_s < inf:
            board._take_in_aged(views, entries, aside)
        board._load(entry for entry in entries if entry.placement is not None)
        for view, entry in zip(views, entries, strict=True):
            board._take_in(view, entry, aside)
        for line in board.lines.values():
            line.sort(key=_place)
        if board._ages_after_s < inf:
            held = {view.gang_key for view in views if view.is_held}
            board._ages_at = [(board._age_s(entry), key) for key, entry in board.entries.items() if key not in held]
            heapify(board._ages_at)
        return board

    def _take_in_aged(self, views: Iterable[GangView], entries: Iterable[Entry], aside: Container[Key]) -> None:
        for view, entry in zip(views, entries, strict=True):
            is_in = view.holds_capacity or view.gang_key not in aside
            if is_in and not view.is_held and entry.waited_s(self.now_s) >= self._ages_after_s:
                self._ageing.add(entry)

    def _take_in(self, view: GangView, entry: Entry, aside: Container[Key]) -> None:
        key = view.gang_key
        self.submissions.setdefault(key[0], []).append(key[1])
        if not view.holds_capacity and key not in aside:
            entry.line_up(self.now_s, self.policy)
            self._note(key, entry)
            self.lines.setdefault(entry.queue, []).append((entry.place_in_line, entry))

    def _load(self, holders: Iterable[Entry]) -> None:
        """They hold their placements in pools that are still empty."""
        by_pool: dict[str, list[tuple[GangRequest, Placement]]] = {}
        for entry in holders:
            assert entry.placement is not None
            by_pool.setdefault(entry.placement.pool, []).append((entry.request, entry.placement))
            self._count_holder(entry, entry.placement, 1)
        for name in by_pool.keys() & self.pools.keys():
            self.pools[name].load(by_pool[name])
        for entry in self.holding.values():
            assert entry.placement is not None
            pool = self.pools.get(entry.placement.pool)
            if pool is not None:
                entry.compute = pool.compute_of(entry.placement)

    @property
    def now(self) -> datetime:
        """The instant as UTC."""
        return datetime.fromtimestamp(self.now_s, UTC)

    # --- what happens

    def add(self, entry: Entry) -> None:
        """A gang is asked for, or waits again."""
        key = entry.gang_key
        self.submissions.setdefault(key[0], []).append(key[1])
        entry.is_aged = False
        self._wait(key, entry)

    def place(self, entry: Entry, placement: Placement) -> None:
        """A gang that waits starts to hold its placement, now; `overhead_s` is the caller's to set."""
        key = entry.gang_key
        self._leave_line(key, entry)
        entry.queued_s += self.now_s - entry.waits_since_s
        entry.started_s = self.now_s
        entry.placement = placement
        self._hold(entry, placement)
        if entry.queued_s >= self._ages_after_s:
            self._line_up_anew(self._ageing.add(entry))

    def displace(self, entry: Entry, *, was_asked: bool = True) -> None:
        """A gang stops holding its placement, on request or not, and waits again; what it ran is kept as attained."""
        key = entry.gang_key
        entry.attained_s += entry.ran_s(self.now_s)
        entry.stopped_before += was_asked
        self._free(entry)
        entry.waits_since_s = self.now_s
        self._wait(key, entry)

    def drop(self, entry: Entry) -> None:
        """A gang is over."""
        key = entry.gang_key
        if entry.placement is not None:
            self._free(entry)
        else:
            self._leave_line(key, entry)
        self._forget(key)
        self._line_up_anew(self._ageing.drop(entry))

    def _forget(self, key: Key) -> None:
        numbers = self.submissions[key[0]]
        numbers.remove(key[1])
        if not numbers:
            del self.submissions[key[0]]

    def take_in(self, view: GangView, *, is_aside: bool) -> None:
        """A gang of a snapshot has come, or has changed and was taken out before; nobody ages here."""
        entry = Entry.of(view, self.now_s)
        self.submissions.setdefault(view.gang_key[0], []).append(view.submission)
        if entry.placement is not None:
            self._hold(entry, entry.placement)
        elif not view.holds_capacity and not is_aside:
            self._wait(view.gang_key, entry)

    def take_out(self, key: Key) -> None:
        """The gang is gone, or is about to be taken in anew."""
        entry = self.holding.get(key) or self.entries.get(key)
        if entry is not None:
            self.drop(entry)
        else:
            self._forget(key)

    def age(self) -> None:
        """Move those forward that have waited long enough by now."""
        while self._ages_at and self._ages_at[0][0] <= self.now_s:
            _, key = heappop(self._ages_at)
            entry = self.entries.get(key)
            if entry is not None and self._age_s(entry) <= self.now_s:
                self._line_up_anew(self._ageing.add(entry))

    def _line_up_anew(self, changed: Iterable[Entry]) -> None:
        for entry in changed:
            key = entry.gang_key
            if key in self.entries:
                self._leave_line(key, entry)
                self._wait(key, entry)

    def might_stop_others(self, entry: Entry) -> bool:
        """False if by the policy nobody who holds capacity could be asked to stop for the gang, whoever it is."""
        policy, priority = self.policy, entry.request.gang_priority
        return (
            policy.ranks_who_runs
            or (policy.preempts_by_priority and min(self.held_priorities, default=priority) < priority)
            or (policy.reclaims_quota and entry.queue in self.quotas.queues)
            or (entry.total.gpu_count > 0 and self._harvesters > 0)
        )

    # --- keeping

    def _wait(self, key: Key, entry: Entry) -> None:
        entry.line_up(self.now_s, self.policy)
        self._note(key, entry)
        insort(self.lines.setdefault(entry.queue, []), (entry.place_in_line, entry), key=_place)
        if self._ages_after_s < inf:
            heappush(self._ages_at, (self._age_s(entry), key))

    def _note(self, key: Key, entry: Entry) -> None:
        """Everything about one that waits but its place in the line, and in the order of ageing."""
        self.entries[key] = entry
        self.waiting_of[entry.kind] = self.waiting_of.get(entry.kind, 0) + 1
        self.related += _is_related(entry)

    def _age_s(self, entry: Entry) -> float:
        return entry.waits_since_s + self._ages_after_s - entry.queued_s

    def _leave_line(self, key: Key, entry: Entry) -> None:
        line = self.lines[entry.queue]
        del line[bisect_left(line, entry.place_in_line, key=_place)]
        del self.entries[key]
        self.related -= _is_related(entry)
        self.waiting_of[entry.kind] -= 1
        if not self.waiting_of[entry.kind]:
            del self.waiting_of[entry.kind]

    def _hold(self, entry: Entry, placement: Placement) -> None:
        self._count_holder(entry, placement, 1)
        pool = self.pools.get(placement.pool)
        if pool is not None:
            pool.move_gang(entry.request, placement, -1)
            entry.compute = pool.compute_of(placement)

    def _count_holder(self, entry: Entry, placement: Placement, sign: int) -> None:
        """All that is counted of who holds capacity, but the capacity itself."""
        if sign > 0:
            self.holding[entry.gang_key] = entry
        else:
            del self.holding[entry.gang_key]
        priority = entry.request.gang_priority
        self.held_priorities[priority] = self.held_priorities.get(priority, 0) + sign
        if not self.held_priorities[priority]:
            del self.held_priorities[priority]
        self._harvesters += sign * entry.request.harvests_cpus
        self.quotas.charge(entry.queue, placement.pool, held_amounts(entry, placement), sign)

    def _free(self, entry: Entry) -> None:
        placement = entry.placement
        assert placement is not None
        self._count_holder(entry, placement, -1)
        pool = self.pools.get(placement.pool)
        if pool is not None:
            pool.move_gang(entry.request, placement, 1)
        entry.placement = None
        entry.stops = False
        entry.compute = 1.0


def _place(item: tuple[tuple[object, ...], Entry]) -> tuple[object, ...]:
    return item[0]


def _is_related(entry: Entry) -> bool:
    wishes = entry.request.wishes
    return wishes is not NO_WISHES and bool(wishes.near or wishes.apart)


def held(entry: Entry, placement: Placement | None = None) -> Resources:
    """What the placement (its own, if none is given) holds: less than was asked for if it has fewer workers."""
    placement = placement or entry.placement
    if placement is None:
        return Resources()
    if not entry.request.is_elastic:
        return entry.total
    total = Resources()
    for placed in placement.workers:
        total = total + entry.request.each[placed.group] * placed.workers
    return total


def held_amounts(entry: Entry, placement: Placement | None = None) -> Amounts:
    """What quotas count of `held`."""
    if entry.request.is_elastic or (placement or entry.placement) is None:
        return held(entry, placement).amounts
    return entry.request.amounts


def _sizes(pools: dict[str, PoolCapacity]) -> dict[tuple[str, str], float]:
    sizes: dict[tuple[str, str], float] = {}
    for name, pool in pools.items():
        cpus = memory = gpus = 0.0
        for node in pool.nodes:
            cpus += node.capacity.cpus
            memory += node.capacity.memory_gib
            gpus += node.capacity.gpus
        sizes |= {(name, "cpus"): cpus, (name, "memory_gib"): memory, (name, "gpus"): gpus}
    return sizes
