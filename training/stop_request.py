"""A request to stop: noted at once, acted on where all ranks agree."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class StopRequest:
    """Whether somebody asked for an end with a checkpoint."""

    is_made: bool = False

    def listen(self) -> None:
        """Take SIGTERM and SIGINT for such a request; the process itself goes on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.is_made = True
