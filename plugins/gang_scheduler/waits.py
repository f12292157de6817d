"""Why each gang waits, in a sentence: what it asks, what is short, what would free it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from gang_scheduler.actions import WaitReason
from gang_scheduler.board import Board
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.decisions import Obstacle
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fitter
from gang_scheduler.gang import GangRequest, Kind
from gang_scheduler.resources import Resources

NAMED_HOLDERS = 5  # of those who hold the pool, so many are named


class WaitWriter:
    """Writes the sentences of one plan; what many of them share is worked out once."""

    def __init__(self, board: Board) -> None:
        """`board` as it was before the plan."""
        self._board = board
        self._pools: dict[str, tuple[str, str, str]] = {}
        self._told: dict[tuple[object, str], tuple[WaitReason, str]] = {}
        self._others: dict[Obstacle, str] = {}
        self._asked: dict[Kind, str] = {}

    def write(self, entry: Entry, obstacle: Obstacle) -> tuple[WaitReason, str]:
        """The typed reason and the sentence."""
        match obstacle.reason:
            case WaitReason.NO_CAPACITY | WaitReason.NO_NODES:
                alike = entry.kind, obstacle.pool
                if alike not in self._told:
                    self._told[alike] = self._no_capacity(entry, obstacle)
                return self._told[alike]
            case WaitReason.BEHIND_ANOTHER_GANG:
                return obstacle.reason, f"{self._asks(entry)}; {self._other(obstacle, _behind)}"
            case WaitReason.RESERVED:
                return obstacle.reason, f"{self._asks(entry)} and would fit now; {self._other(obstacle, _reserved)}"
            case WaitReason.PREEMPTING:
                made = f"; {obstacle.detail}" if obstacle.detail else ""
                return obstacle.reason, f"{self._asks(entry)}; others stop with a checkpoint to make room for it{made}"
            case _:
                return obstacle.reason, obstacle.detail

    def _other(self, obstacle: Obstacle, say: Callable[[Obstacle], str]) -> str:
        """What is said of the one in the way, who may be in the way of many."""
        found = self._others.get(obstacle)
        if found is None:
            found = self._others[obstacle] = say(obstacle)
        return found

    def _asks(self, entry: Entry) -> str:
        found = self._asked.get(entry.kind)
        if found is None:
            found = self._asked[entry.kind] = asks(entry.request)
        return found

    def _no_capacity(self, entry: Entry, obstacle: Obstacle) -> tuple[WaitReason, str]:
        request, name = entry.request, obstacle.pool
        capacity = self._board.pools.get(name)
        if capacity is None or not capacity.usable:
            found = "it has no nodes" if capacity is None or not capacity.nodes else f"{_cordons(capacity)}"
            everything = f"every node is out of use: {found}" if capacity is not None and capacity.nodes else found
            return WaitReason.NO_NODES, f"gang pool '{name}' can take no gang now: {everything}"
        free, size, holders = self._pool(name, capacity)
        if not self._would_fit_empty(entry, capacity):
            cordons = _cordons(capacity)
            aside = f"; {cordons}" if cordons else ""
            return (
                WaitReason.NO_CAPACITY,
                f"{asks(request)}; gang pool '{name}' has {size} when empty, which does not hold the whole gang{aside}",
            )
        held_by = f"; held by {holders}" if holders else ""
        return WaitReason.NO_CAPACITY, f"{asks(request)}; gang pool '{name}' has {free} free of {size}{held_by}"

    def _pool(self, name: str, capacity: PoolCapacity) -> tuple[str, str, str]:
        found = self._pools.get(name)
        if found is None:
            size = Resources()
            for number, node in enumerate(capacity.nodes):
                if capacity.is_usable[number]:
                    size = size + node.capacity
            holding = [
                other
                for _, other in sorted(self._board.holding.items())
                if other.placement is not None and other.placement.pool == name
            ]
            found = self._pools[name] = (str(capacity.free()), str(size), _holders(holding))
        return found

    def _would_fit_empty(self, entry: Entry, capacity: PoolCapacity) -> bool:
        return Fitter({}).fit(entry, capacity.empty) is not None


def asks(request: GangRequest) -> str:
    """What the gang asks."""
    return f"asks {workers(request)} ({request.total})"


def workers(request: GangRequest) -> str:
    """How many workers, in words."""
    return f"{request.workers} worker{'' if request.workers == 1 else 's'}"


def _holders(holding: Sequence[Entry]) -> str:
    named = [f"{other.request.gang_id} ({other.total}, {other.state})" for other in holding[:NAMED_HOLDERS]]
    more = len(holding) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _behind(obstacle: Obstacle) -> str:
    other = obstacle.other
    assert other is not None
    request, at = other.request, other.submitted_s
    return (
        f"gang '{request.gang_id}' (priority {request.gang_priority}, asked at {_utc(at)}) is before it in gang pool "
        f"'{obstacle.pool}' and waits for {request.total}"
    )


def _reserved(obstacle: Obstacle) -> str:
    other = obstacle.other
    assert other is not None
    return (
        f"but would delay gang '{other.request.gang_id}', which is before it and has a reservation in gang pool "
        f"'{obstacle.pool}' for {other.total}; one that ends sooner might pass"
    )


def _cordons(capacity: PoolCapacity) -> str:
    out = []
    for node in capacity.nodes:
        if not node.is_usable:
            state = "cordoned" if node.is_cordoned else str(node.state)
            out.append(f"{node.node} is {state} ({node.cordon_reason or 'no reason given'})")
    more = f" and {len(out) - NAMED_HOLDERS} more" if len(out) > NAMED_HOLDERS else ""
    return "; ".join(out[:NAMED_HOLDERS]) + more


def _utc(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
