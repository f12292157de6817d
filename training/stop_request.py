"""A request to stop, as a signal makes it: noted at once, acted on where all ranks agree."""

from __future__ import annotations

import signal
from types import FrameType


class StopRequest:
    """Turns true when SIGTERM or SIGINT arrives; the process itself goes on."""

    def __init__(self) -> None:
        self.is_made = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.is_made = True
