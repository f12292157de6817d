"""The board of the last plan, brought up to date by what has changed since then.

Most of a cluster is as it was a second ago: making the board anew cost a plan more than deciding anything. What is kept
is never more than a memory of the last snapshot; plans by it equal plans by a new board, which the board's own
properties show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from operator import attrgetter

from gang_scheduler.board import Board
from gang_scheduler.gang import Key
from gang_scheduler.snapshot import GangView, Snapshot

# All that entries rest on but what `Entry.go_on` takes over.
_SHOWN = attrgetter(
    *("request", "submission", "attempt", "state", "submitted_at", "state_since", "placement", "learned_duration"),
    *("not_before", "queued_spent", "running_spent", "recovering_spent", "infrastructure_ends", "user_ends"),
)
RENEWED_AFTER = 256  # plans; by then sums of fractions may have gathered last bits, and tables be there for past gangs


class KeptBoard:
    """Gives out the board of a snapshot; one that asks while another still has it gets a new one."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._kept: _Kept | None = None

    @contextmanager
    def of(self, snapshot: Snapshot, *, without: Iterable[Key] = ()) -> Iterator[Board]:
        """`Board.of`; whoever asks must leave it as it was."""
        kept, self._kept = self._kept, None  # should anything fail half-way, the next one starts anew
        aside = frozenset(without)
        if kept is None or not kept.is_of(snapshot):
            kept = _Kept(snapshot, aside)
        else:
            kept.follow(snapshot, aside)
        yield kept.board
        self._kept = kept


class _Kept:
    def __init__(self, snapshot: Snapshot, aside: frozenset[Key]) -> None:
        self.board = Board.of(snapshot, without=aside)
        self._first = snapshot
        self._views = _by_key(snapshot)
        self._aside = aside
        self._plans = 0

    def is_of(self, snapshot: Snapshot) -> bool:
        """True if it is the same cluster under the same rules; gangs come and go, and queues use more or less."""
        first = self._first
        return (
            self._plans < RENEWED_AFTER
            and snapshot.policy == first.policy
            and snapshot.policy.ages_after_s == inf  # who has aged rests on more than what has changed
            and snapshot.pools == first.pools
            and snapshot.nodes == first.nodes
        )

    def follow(self, snapshot: Snapshot, aside: frozenset[Key]) -> None:
        board, before, after = self.board, self._views, _by_key(snapshot)
        board.now_s = snapshot.now.timestamp()
        board.quotas.renew(snapshot.queues)
        moved = aside ^ self._aside
        changed = {key for key, view in after.items() if _is_another(before.get(key), view)} | moved
        for key in before:
            if key in changed or key not in after:
                board.take_out(key)
        for key, view in after.items():
            if key in changed:
                board.take_in(view, is_aside=key in aside)
        for key, entry in board.holding.items():
            entry.go_on(after[key], board.now_s)
        self._views, self._aside = after, aside
        self._plans += 1


def _is_another(before: GangView | None, after: GangView) -> bool:
    """True if a board would show another gang; supervisors that were heard of again, which all are, change nothing."""
    return before is not after and (before is None or _SHOWN(before) != _SHOWN(after))


def _by_key(snapshot: Snapshot) -> Mapping[Key, GangView]:
    return {view.gang_key: view for view in snapshot.gangs}
