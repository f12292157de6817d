"""The fast way: the same decisions on a board that is kept, and changed by what happens."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from gang_scheduler.board import Board
from gang_scheduler.decide import decide
from gang_scheduler.decisions import Decisions
from gang_scheduler.entry import Entry
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeView
from gang_simulator.cluster import Cluster
from gang_simulator.decider import Decided
from gang_simulator.settings import ReplaySettings
from gang_simulator.sim_gang import SimGang


class BoardDecider:
    """Keeps one board and an entry for each live gang."""

    def __init__(self, cluster: Cluster, settings: ReplaySettings) -> None:
        """Nobody has asked for anything."""
        self._cluster = cluster
        self._policy = settings.policy
        every = settings.checkpoint_every
        self._every_s = None if every is None else every.total_seconds()
        self._board = self._empty(cluster.nodes, 0.0)
        self._entries: dict[SimGang, Entry] = {}
        self._gangs: dict[Entry, SimGang] = {}
        self._backing_off: list[tuple[float, str, SimGang]] = []
        self._priorities: set[int] = set()
        self._last = Decisions()

    def gang_waits(self, gang: SimGang, now_s: float) -> None:
        entry = Entry(gang.key, gang.request, gang.submitted_s)
        self._entries[gang] = entry
        self._gangs[entry] = gang
        self._priorities.add(gang.request.gang_priority)
        self._add(gang, now_s)

    def gang_began(self, gang: SimGang, now_s: float) -> None:
        self._board.now_s = now_s
        self._place(gang)

    def gang_left(self, gang: SimGang, now_s: float) -> None:
        self._board.now_s = now_s
        self._board.drop(self._entries[gang])
        self._add(gang, now_s)

    def gang_ended(self, gang: SimGang, now_s: float) -> None:
        self._board.now_s = now_s
        entry = self._entries.pop(gang)
        del self._gangs[entry]
        self._board.drop(entry)

    def nodes_changed(self, nodes: Sequence[NodeView], now_s: float) -> None:
        """Rare enough for everything to be put onto an empty board again."""
        self._board = self._empty(nodes, now_s)
        for gang in sorted(self._entries, key=lambda gang: gang.request.gang_id):
            if gang.placement is not None:
                self._entries[gang].placement = None
                self._add(gang, now_s)
                self._place(gang)
            elif gang.not_before_s is None or gang.not_before_s <= now_s:
                self._add(gang, now_s)

    def decide(self, now_s: float, queues: Sequence[QueueView]) -> Decided:
        """Go through the board's line once."""
        board = self._board
        board.now_s = now_s
        while self._backing_off and self._backing_off[0][0] <= now_s:
            _, _, gang = heappop(self._backing_off)
            self._add(gang, now_s)
        for queue in queues:
            board.quotas.queues[queue.name] = queue
        if self._every_s is not None and (self._cluster.queues or len(self._priorities) > 1):
            # Only who is stopped for a higher priority, or for a quota, is chosen by what its stop would lose.
            for entry in board.holding.values():
                entry.saved_s = self._gangs[entry].saved_s(now_s, self._every_s)
        self._last = decide(board)
        return Decided(
            [(self._gangs[admission.entry], admission.placement) for admission in self._last.admitted],
            [self._gangs[stop.entry] for stop in self._last.stopped],
        )

    def why_waits(self, gang: SimGang) -> str:
        obstacle = self._last.obstacle_of(self._entries[gang])
        return (obstacle.detail or obstacle.reason) if obstacle is not None else ""

    def _empty(self, nodes: Sequence[NodeView], now_s: float) -> Board:
        return Board(now_s, nodes, self._cluster.pools, self._cluster.queues, self._policy)

    def _add(self, gang: SimGang, now_s: float) -> None:
        if gang.not_before_s is not None and gang.not_before_s > now_s:
            heappush(self._backing_off, (gang.not_before_s, gang.request.gang_id, gang))
            return
        self._board.now_s = now_s
        entry = self._entries[gang]
        entry.key = gang.key
        entry.state = GangState.QUEUED
        entry.waits_since_s = gang.waits_since_s
        entry.queued_s = gang.waited_s
        entry.attained_s = gang.spent_s
        entry.stopped_before = gang.preemptions
        entry.overhead_s = 0.0  # not known before it starts
        entry.saved_s = None
        self._board.add(entry)

    def _place(self, gang: SimGang) -> None:
        assert gang.placement is not None
        entry = self._entries[gang]
        entry.queued_s, entry.waits_since_s = gang.waited_s, self._board.now_s  # the gang's own count holds
        self._board.place(entry, gang.placement)
        entry.key = gang.key
        entry.state = GangState.RUNNING
        entry.started_s = gang.began_s
        entry.overhead_s = gang.overhead_s
