"""Where the time of a step goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Part = Literal["data", "forward", "backward", "communication", "optimiser", "checkpoint"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True)
class Reading:
    """A clock's sums at one moment: steps made, seconds by part, and the moment itself (`time.perf_counter`)."""

    steps: int
    seconds: Mapping[Part, float]
    at: float

    def own_seconds_since(self, earlier: Reading) -> float:
        """What this rank took meanwhile for work in which it waits for no other: reading data, and forward.

        Where layers themselves are spread over ranks, forward waits as well, and tells less.
        """
        return sum(self.seconds[part] - earlier.seconds[part] for part in ("data", "forward"))

    def split_since(self, earlier: Reading) -> dict[str, float] | None:
        """Mean seconds of a step by part; "other" is what no part accounts for. None if no step was made."""
        steps = self.steps - earlier.steps
        if not steps:
            return None
        spent: dict[str, float] = {part: self.seconds[part] - earlier.seconds[part] for part in PARTS}
        spent["other"] = max(0.0, self.at - earlier.at - sum(spent.values()))
        return {part: seconds / steps for part, seconds in spent.items()}


class StepClock:
    """Attributes the time since the last lap to a part: one read of a clock each, so it is always on.

    It is the host's clock. Communication that runs while gradients are computed counts as backward, and what a GPU
    still has to do counts where the host waits for it.
    """

    def __init__(self) -> None:
        self._seconds: dict[Part, float] = dict.fromkeys(PARTS, 0.0)
        self._steps = 0
        self._lap_at = time.perf_counter()

    def skip(self) -> None:
        """Attribute the time since the last lap to no part."""
        self._lap_at = time.perf_counter()

    def lap(self, part: Part) -> None:
        """Attribute the time since the last lap to `part`."""
        now = time.perf_counter()
        self._seconds[part] += now - self._lap_at
        self._lap_at = now

    def step(self) -> None:
        """Count a step as made."""
        self._steps += 1

    def read(self) -> Reading:
        """The sums so far."""
        return Reading(self._steps, dict(self._seconds), time.perf_counter())
