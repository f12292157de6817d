"""When a gang will start, and whether one that is not asked for yet would: answered by looking ahead with `decide`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gang_scheduler.actions import WaitReason
from gang_scheduler.admission import held_back, why_never
from gang_scheduler.board import Board
from gang_scheduler.decide import decide
from gang_scheduler.decisions import Obstacle
from gang_scheduler.gang import GangRequest, Key, Placement
from gang_scheduler.gang_state import GangState
from gang_scheduler.line import in_turn
from gang_scheduler.snapshot import GangView, Snapshot
from gang_scheduler.waits import WaitWriter

HORIZON = timedelta(days=90)
MOST_STEPS = 20_000  # ends that are looked at; a forecast that far is none


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the gang is expected to start, and in which pool; `start` None: not within what can be foreseen.

    `position` is its place among all that wait (1 is next). `guesses` is the number of running or earlier gangs whose
    duration nobody gave or learned: the more, the less the forecast is worth.
    """

    start: datetime | None
    pool: str
    position: int
    guesses: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of a request if it were asked for now.

    `never`: why it would be refused for good; empty if it would not. `now`: where it would start at once, else None.
    `sentence` says why it would wait; `forecast` when it would start.
    """

    never: str
    now: Placement | None
    sentence: str
    forecast: Forecast | None


def forecast(snapshot: Snapshot, gang_ids: Collection[str]) -> dict[str, Forecast]:
    """When each of the gangs that wait is expected to start, if all goes on as it is and nobody else asks.

    Ends come when expected, stops at once; gangs that are held, or whose node is out of use, stay so.
    """
    board = _board(snapshot)
    places = _places(board)
    wanted = set(gang_ids) & set(places)
    known = list(board.entries.values()) + list(board.holding.values())
    guesses = sum(entry.expected_s is None for entry in known if entry.key.gang_id not in gang_ids)
    found: dict[str, Forecast] = {}
    end_s = board.now_s + HORIZON.total_seconds()
    for _ in range(MOST_STEPS):
        if not wanted or board.now_s > end_s:
            break
        for gang_id, pool in _step(board).items():
            if gang_id in wanted:
                start = datetime.fromtimestamp(board.now_s, UTC)
                found[gang_id] = Forecast(start, pool, places[gang_id], guesses)
                wanted.discard(gang_id)
        if not _advance(board):
            break
    for gang_id in sorted(wanted):
        found[gang_id] = Forecast(None, "", places[gang_id], guesses)
    return found


def positions(snapshot: Snapshot) -> dict[str, int]:
    """The place of each gang among all that wait (1 is next), those apart that are held."""
    return _places(_board(snapshot))


def _board(snapshot: Snapshot) -> Board:
    return Board.of(snapshot, without=[view.gang_key for view in snapshot.gangs if view.is_held])


def _places(board: Board) -> dict[str, int]:
    board.age()
    in_line = in_turn(board, set(), lambda: board.quotas)
    return {entry.key.gang_id: place for place, entry in enumerate(in_line, start=1)}


def _step(board: Board) -> dict[str, str]:
    """Carry out what is decided at this moment, until nothing more is; returns who starts, and in which pool."""
    started: dict[str, str] = {}
    for _ in range(len(board.entries) + len(board.holding) + 1):
        backing_off = {
            key: Obstacle(WaitReason.BACKING_OFF)
            for key, entry in board.entries.items()
            if entry.not_before_s > board.now_s or min(board.submissions[key[0]]) < key[1]
        }
        decisions = decide(board, backing_off)
        for admission in decisions.admitted:
            admission.entry.state = GangState.RUNNING
            board.place(admission.entry, admission.placement)
            started[admission.entry.key.gang_id] = admission.placement.pool
        for stop in decisions.stopped:
            stop.entry.state = GangState.QUEUED
            board.displace(stop.entry)
        if not decisions.stopped:
            break
    return started


def _advance(board: Board) -> bool:
    """Go to the next end, or the next moment at which somebody may start again; False if nothing lies ahead."""
    policy = board.policy
    ends = [(entry.end_s(board.now_s, policy), key) for key, entry in board.holding.items()]
    later = [entry.not_before_s for entry in board.entries.values() if entry.not_before_s > board.now_s]
    moments = [end_s for end_s, _ in ends] + later + _edges(board)
    if not moments:
        return False
    board.now_s = max(board.now_s, min(moments))
    over: list[Key] = [key for end_s, key in ends if end_s <= board.now_s]
    for key in over:
        board.drop(board.holding[key])
    return True


def _edges(board: Board) -> list[float]:
    """When the windows of queues with gangs open or close next."""
    names = {name for name, line in board.lines.items() if line} | {entry.queue for entry in board.holding.values()}
    queues = [board.quotas.queues[name] for name in sorted(names) if name in board.quotas.queues]
    return [window.next_edge(board.now).timestamp() for queue in queues for window in queue.windows]


def dry_run(request: GangRequest, snapshot: Snapshot) -> DryRun:
    """What would become of the request: never, now, or when."""
    never = why_never(request, snapshot.nodes, snapshot.pools)
    if never is not None:
        return DryRun(never, None, never, None)
    submission = 1 + max(
        (view.submission for view in snapshot.gangs if view.request.gang_id == request.gang_id), default=0
    )
    view = GangView(request, submission, 0, GangState.QUEUED, snapshot.now, snapshot.now)
    asked = replace(snapshot, gangs=(*snapshot.gangs, view))
    board = Board.of(asked)
    views = {(other.request.gang_id, other.submission): other for other in asked.gangs if not other.holds_capacity}
    decisions = decide(board, held_back(views, asked))
    for admission in decisions.admitted:
        if admission.entry.key == view.key:
            placed = admission.placement
            return DryRun("", placed, f"would start now in gang pool '{placed.pool}'", None)
    entry = board.entries[request.gang_id, submission]
    obstacle = decisions.obstacle_of(entry)
    sentence = WaitWriter(board).write(entry, obstacle)[1] if obstacle else "would wait"
    return DryRun("", None, sentence, forecast(asked, [request.gang_id]).get(request.gang_id))
