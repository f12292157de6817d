"""What the stack raises on purpose; every message says what was asked, what was found and what to do."""

from __future__ import annotations

from pathlib import Path


class StackError(Exception):
    """The stack can't do what was asked; the message is for the person who asked."""


class PartFailed(StackError):
    """A part did not come up; the message ends with the tail of its log."""

    def __init__(self, part: str, found: str, log: Path, tail: str, advice: str) -> None:
        """Tell what `part` did instead of starting."""
        super().__init__(f"{part} did not start: {found}. {advice}\nLast lines of {log}:\n{tail or '(nothing)'}")
        self.part = part
