"""stack.json: what the launcher says of itself and its parts, for `status` and `down` in other terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from embedded_stack.processes import ProcessIdentity
from embedded_stack.state_folder import read_json, write_json

SCHEMA = 1


class StackState(StrEnum):
    """Where the stack is in its life; `DOWN` is also what a folder without a record is in."""

    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    DOWN = "down"
    LOST = "lost"  # its launcher was killed; never written, only read


@dataclass(frozen=True, slots=True)
class StackRecord:
    """The stack as its launcher last wrote it down."""

    state: StackState = StackState.DOWN
    launcher: ProcessIdentity | None = None
    address: str = ""
    port: int = 0
    since: str = ""
    parts: Sequence[dict[str, Any]] = field(default_factory=tuple)

    @classmethod
    def read(cls, path: Path) -> StackRecord:
        """The record in `path`, with the state as it is now: LOST if the launcher did not live to write DOWN."""
        content = read_json(path) or {}
        launcher = ProcessIdentity.read(content.get("launcher"))
        try:
            state = StackState(str(content.get("state", StackState.DOWN)))
        except ValueError:
            state = StackState.DOWN
        if state is not StackState.DOWN and (launcher is None or not launcher.is_alive):
            state = StackState.LOST
        parts = tuple(content.get("parts", ()))
        port = int(content.get("port", 0))
        return cls(state, launcher, str(content.get("address", "")), port, str(content.get("since", "")), parts)

    def write(self, path: Path) -> None:
        write_json(
            path,
            {
                "schema": SCHEMA,
                "state": self.state,
                "launcher": self.launcher.as_json() if self.launcher else None,
                "address": self.address,
                "port": self.port,
                "since": self.since,
                "written_at": datetime.now(UTC).isoformat(),
                "parts": list(self.parts),
            },
        )
