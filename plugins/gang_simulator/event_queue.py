"""What is to happen in a replay, soonest first."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush

from gang_simulator.sim_gang import instant


class Event(IntEnum):
    """What happens; at one instant in this order."""

    END = 0
    FAULT_ENDS = 1
    FAULT_BEGINS = 2
    SUBMIT = 3
    LOOK = 4  # nothing happens, but the passing of time alone may change a decision


class EventQueue:
    """Events with what they are about; those of one instant and kind come in the order in which they were put in."""

    def __init__(self) -> None:
        """Nothing is to come."""
        self._heap: list[tuple[float, Event, int, object]] = []
        self._pushed = 0
        self._but_looks = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def next_s(self) -> float:
        """The instant of the next one."""
        return self._heap[0][0]

    @property
    def is_only_looks(self) -> bool:
        """True if nothing but the passing of time is to come."""
        return not self._but_looks

    def push(self, at_s: float, event: Event, subject: object) -> None:
        """Let it happen then."""
        heappush(self._heap, (instant(at_s), event, self._pushed, subject))
        self._pushed += 1
        self._but_looks += event is not Event.LOOK

    def pop_at(self, now_s: float) -> Iterator[tuple[Event, object]]:
        """All of one instant, those included that come up meanwhile."""
        while self._heap and self._heap[0][0] == now_s:
            _, event, _, subject = heappop(self._heap)
            self._but_looks -= event is not Event.LOOK
            yield event, subject
