"""What the replay asks of whoever decides; there are two: the plan itself, and the board that it works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gang_scheduler.gang import Placement
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.node import NodeView
from gang_simulator.sim_gang import SimGang


@dataclass(slots=True)
class Decided:
    """Who starts where, who has to stop, as of one instant."""

    begun: list[tuple[SimGang, Placement]] = field(default_factory=list)
    stopped: list[SimGang] = field(default_factory=list)

    def __bool__(self) -> bool:
        """True if anything happens."""
        return bool(self.begun or self.stopped)


class Decider(Protocol):
    """Is told what happens, after it happened to the gang, and decides when asked."""

    def gang_waits(self, gang: SimGang, now_s: float) -> None:
        """A new gang waits."""

    def gang_began(self, gang: SimGang, now_s: float) -> None:
        """A gang that waited holds its placement."""

    def gang_left(self, gang: SimGang, now_s: float) -> None:
        """A gang has left its placement and waits again (`placement` is None, the rest up to date)."""

    def gang_ended(self, gang: SimGang, now_s: float) -> None:
        """A gang that ran is over."""

    def nodes_changed(self, nodes: Sequence[NodeView], now_s: float) -> None:
        """Nodes have failed or come back."""

    def decide(self, now_s: float, queues: Sequence[QueueView]) -> Decided:
        """What happens at this instant; the queues come with their usage so far."""

    def why_waits(self, gang: SimGang) -> str:
        """What kept a gang waiting when it was last decided about."""
