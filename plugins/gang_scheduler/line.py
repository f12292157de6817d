"""Whose turn it is: the gangs that wait, in order over all queues."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from gang_scheduler.board import Board
from gang_scheduler.entry import Entry
from gang_scheduler.gang import Kind


def in_turn(board: Board, hopeless: set[Kind]) -> Iterator[Entry]:
    """Yield each gang that waits once, passing over the `hopeless` kinds.

    Priority goes first, then who has waited for too long; among queues then whoever stays within its nominal quota,
    then the least weighted share, which is looked up again whenever the queue is considered, since who was admitted
    meanwhile changes it; inside a queue the order of the policy.
    """
    lines = [(name, line) for name, line in sorted(board.lines.items()) if line]
    if len(lines) == 1:
        for _, entry in lines[0][1].copy():
            if entry.kind not in hopeless:
                yield entry
        return
    turns = [_Turn(board, name, line.copy()) for name, line in lines]
    heap = [(turn.key(), number, turn) for number, turn in enumerate(turns) if turn.advance(hopeless)]
    heapify(heap)
    while heap:
        key, number, turn = heap[0]
        if not turn.is_open(hopeless):
            heappop(heap)
            continue
        fresh = turn.key()
        if fresh != key:
            heapreplace(heap, (fresh, number, turn))
            continue
        entry = turn.pop()
        yield entry
        if turn.advance(hopeless):
            heapreplace(heap, (turn.key(), number, turn))
        else:
            heappop(heap)


class _Turn:
    """One queue's line, and how far it has been gone through."""

    def __init__(self, board: Board, name: str, line: list[tuple[tuple[object, ...], Entry]]) -> None:
        self._board = board
        self._name = name
        self._line = line
        self._next = 0

    def is_open(self, hopeless: set[Kind]) -> bool:
        return self.advance(hopeless)

    def advance(self, hopeless: set[Kind]) -> bool:
        """Go to the next that is not hopeless; False if there is none."""
        while self._next < len(self._line) and self._line[self._next][1].kind in hopeless:
            self._next += 1
        return self._next < len(self._line)

    def pop(self) -> Entry:
        entry = self._line[self._next][1]
        self._next += 1
        return entry

    def key(self) -> tuple[object, ...]:
        place, entry = self._line[self._next]
        book, is_fair = self._board.quotas, self._board.policy.fair_share
        priority, is_young = place[0], place[1]
        borrows = book.borrows(self._name, entry.request.gang_pool) if is_fair else False
        share = book.share(self._name) if is_fair else 0.0
        return (priority, is_young, borrows, share, place)
