"""What a pass over the line decided: who is let in, who stops, and what keeps each other gang waiting."""

from __future__ import annotations

from dataclasses import dataclass, field

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.entry import Entry
from gang_scheduler.gang import Key, Kind, Placement


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a gang waiting: the typed reason, who is in the way, and a sentence where one was at hand."""

    reason: WaitReason
    pool: str = ""
    other: Entry | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """The gang is let in here."""

    entry: Entry
    placement: Placement


@dataclass(frozen=True, slots=True)
class Stop:
    """The gang is asked to stop with a checkpoint; `made_for` is who goes there then, if anybody."""

    entry: Entry
    reason: StopReason
    made_for: Entry | None = None


@dataclass(slots=True)
class Decisions:
    """What one pass decided; `obstacle_of` says what keeps one that waits."""

    admitted: list[Admission] = field(default_factory=list)
    stopped: list[Stop] = field(default_factory=list)
    obstacles: dict[Key, Obstacle] = field(default_factory=dict)
    of_kind: dict[Kind, Obstacle] = field(default_factory=dict)
    closed: dict[str, Obstacle] = field(default_factory=dict)  # by pool, where the first in line blocks it

    def obstacle_of(self, entry: Entry) -> Obstacle | None:
        """What keeps the gang waiting; None if it was admitted, or stands where nobody looked."""
        own = self.obstacles.get(entry.gang_key) or self.of_kind.get(entry.kind)
        return own or self.closed.get(entry.request.gang_pool)
