"""Progress of a long replay: a line that is written over on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

DAY_S = 86_400.0


class ProgressLine:
    """Call it with gangs over, gangs in all and seconds of the trace; it writes seldom enough to cost nothing."""

    def __init__(self, out: TextIO, label: str) -> None:
        """Where to write to, and what to call it."""
        self._out = out
        self._label = label
        self._is_terminal = out.isatty()
        self._every_s = 0.2 if self._is_terminal else 10.0
        self._began_s = self._last_s = time.monotonic()
        self._has_written = False

    def __call__(self, over: int, total: int, trace_s: float) -> None:
        """Tell how far it is."""
        now_s = time.monotonic()
        if now_s - self._last_s < self._every_s:
            return
        self._last_s = now_s
        self._has_written = True
        rate = over / (now_s - self._began_s)
        line = f"{self._label}: {over} of {total} jobs, day {trace_s / DAY_S:.1f} of the trace, {rate:.0f} jobs/s"
        self._out.write(f"\r{line:<79}" if self._is_terminal else f"{line}\n")
        self._out.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._has_written and self._is_terminal:
            self._out.write(f"\r{'':<79}\r")
            self._out.flush()
