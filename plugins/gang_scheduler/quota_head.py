"""The first gang of a queue that its quota keeps waiting, and who may pass it inside that queue without delaying it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from gang_scheduler.board import held_amounts
from gang_scheduler.entry import Entry
from gang_scheduler.gang import Key
from gang_scheduler.policy import Blocking
from gang_scheduler.quota_book import QuotaBook

End = tuple[float, Key, Entry]  # when, who


class QuotaHead:
    """Reckons, when first asked, by when enough of the quota is free again."""

    def __init__(
        self, entry: Entry, pool: str, quotas: QuotaBook, blocking: Blocking, ends: Callable[[], Sequence[End]]
    ) -> None:
        """`quotas` as they were when the gang was considered; `ends` of all that hold capacity, soonest first."""
        self.entry = entry
        self._pool = pool
        self._ends = ends
        self._book = quotas.copy()
        self._blocking = blocking
        self._start_s: float | None = None

    def allows(self, entry: Entry, pool: str, amounts: Mapping[str, float], end_s: float) -> bool:
        """True if a gang of the queue that holds so much until `end_s` does not delay it; then it counts as let in."""
        is_allowed = self.would_allow(pool, amounts, end_s)
        if is_allowed and pool == self._pool and end_s > self._starts_at_s():
            self._book.charge(entry.queue, pool, amounts, 1)
        return is_allowed

    def would_allow(self, pool: str, amounts: Mapping[str, float], end_s: float) -> bool:
        """The same, without counting it."""
        if pool != self._pool:
            return True
        if self._blocking is Blocking.HEAD:
            return False
        if end_s <= self._starts_at_s():
            return True
        self._book.charge(self.entry.queue, pool, amounts, 1)
        is_within = self._book.short(self.entry.queue, pool, self.entry.request.least_amounts) is None
        self._book.charge(self.entry.queue, pool, amounts, -1)
        return is_within

    def _starts_at_s(self) -> float:
        if self._start_s is None:
            self._start_s = self._reckon()
        return self._start_s

    def _reckon(self) -> float:
        """Free those that hold quota, in the order of their expected ends, until the gang is within it."""
        asked = self.entry.request.least_amounts
        for end_s, _, other in self._ends():
            if other.placement is None or other.placement.pool != self._pool:
                continue
            self._book.charge(other.queue, self._pool, held_amounts(other, other.placement), -1)
            if self._book.short(self.entry.queue, self._pool, asked) is None:
                return end_s
        return inf
