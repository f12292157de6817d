"""Finds the error in what a Python program printed; pure text in, facts out."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = "Traceback (most recent call last):"
_ERROR = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")


@dataclass(frozen=True, slots=True)
class PrintedError:
    """The error that a traceback ends with."""

    type: str
    message: str
    traceback: str


def last_error(text: str) -> PrintedError | None:
    """The last traceback in `text`; lines may have been printed after it. None if there is no whole one."""
    _, head, rest = text.rpartition(_HEAD)
    if not head:
        return None
    frames: list[str] = []
    for line in rest.removeprefix("\n").splitlines():
        if line.startswith(" ") or not line:
            frames.append(line)
            continue
        error = _ERROR.match(line)
        if error is None:
            return None
        return PrintedError(error["type"], error["message"] or "", "\n".join([_HEAD, *frames, line]))
    return None
