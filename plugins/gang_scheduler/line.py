"""Whose turn it is: the gangs that wait, in order over all queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heapreplace

from gang_scheduler.board import Board
from gang_scheduler.entry import Entry
from gang_scheduler.gang import Kind
from gang_scheduler.policy import Policy
from gang_scheduler.quota_book import QuotaBook


def in_turn(board: Board, hopeless: set[Kind], book: Callable[[], QuotaBook] | None = None) -> Iterator[Entry]:
    """Yield each gang that waits once, passing over the `hopeless` kinds.

    Priority goes first, then who has waited for too long; among queues then whoever stays within its nominal quota
    with this gang too (else one from whom quota was reclaimed might take it right back), then the least weighted share,
    which is looked up again whenever the quotas have changed, since who was admitted
    meanwhile changes it; inside a queue the order of the policy.

    Args:
        board: the present.
        hopeless: kinds that are passed over; the caller adds to it.
        book: the quotas as they are now; the board's if not given.
    """
    lines = [(name, line) for name, line in sorted(board.lines.items()) if line]
    if len(lines) == 1:
        for _, entry in lines[0][1].copy():
            if entry.kind not in hopeless:
                yield entry
        return
    current = book or (lambda: board.quotas)
    turns = [_Turn(board.policy, name, line.copy()) for name, line in lines]
    heap = [(turn.key(current()), number, turn) for number, turn in enumerate(turns) if turn.advance(hopeless)]
    heapify(heap)
    read_at = current().changes
    while heap:
        if current().changes != read_at:
            heap = [(turn.key(current()), number, turn) for _, number, turn in heap]
            heapify(heap)
            read_at = current().changes
        _, number, turn = heap[0]
        if turn.has_moved(hopeless):
            if turn.is_over:
                heappop(heap)
            else:
                heapreplace(heap, (turn.key(current()), number, turn))
            continue
        yield turn.pop()
        if turn.advance(hopeless):
            heapreplace(heap, (turn.key(current()), number, turn))
        else:
            heappop(heap)


class _Turn:
    """One queue's line, and how far it has been gone through."""

    def __init__(self, policy: Policy, name: str, line: list[tuple[tuple[object, ...], Entry]]) -> None:
        self._is_fair = policy.fair_share
        self._minds_quota = policy.fair_share or policy.reclaims_quota
        self._name = name
        self._line = line
        self._next = 0

    @property
    def is_over(self) -> bool:
        return self._next >= len(self._line)

    def has_moved(self, hopeless: set[Kind]) -> bool:
        """True if the next one has become hopeless meanwhile; then the one after it is next."""
        before = self._next
        self.advance(hopeless)
        return self._next != before

    def advance(self, hopeless: set[Kind]) -> bool:
        """Go to the next that is not hopeless; False if there is none."""
        line, at = self._line, self._next
        while at < len(line) and line[at][1].kind in hopeless:
            at += 1
        self._next = at
        return at < len(line)

    def pop(self) -> Entry:
        entry = self._line[self._next][1]
        self._next += 1
        return entry

    def key(self, book: QuotaBook) -> tuple[object, ...]:
        place, entry = self._line[self._next]
        pool = entry.request.gang_pool
        borrows = (
            self._minds_quota
            and book.has_quota(self._name, pool)
            and book.borrows(self._name, pool, entry.request.least_amounts)
        )
        share = book.share(self._name) if self._is_fair else 0.0
        return (place[0], place[1], borrows, share, place)
