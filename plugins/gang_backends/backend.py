"""The backend protocol: three calls, each safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.verdict import AttemptEnd


class BackendError(Exception):
    """A launch that did not come about; nothing of it runs."""


class Liveness(StrEnum):
    """What a backend can say about an attempt. UNKNOWN is never treated as dead."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AttemptState:
    """The answer of `Backend.state`; `proof` says what it rests on; `end` is set if it is DEAD."""

    liveness: Liveness
    proof: str
    end: AttemptEnd | None = None
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """All that a backend needs to launch one attempt."""

    key: AttemptKey
    request: GangRequest
    placement: Placement
    run_dir: str
    resume_from: str = ""


class Backend(Protocol):
    """Launches, looks at and stops attempts; the same key always means the same attempt."""

    def launch(self, order: LaunchOrder, env: Mapping[str, str]) -> str:
        """Start the attempt's supervisor unless it already runs or ran; return its ref (JSON, opaque)."""
        ...

    def state(self, ref: str, run_dir: str, key: AttemptKey) -> AttemptState: ...

    def stop(self, ref: str, run_dir: str, key: AttemptKey, grace: timedelta) -> None:
        """Ask the supervisor to end the attempt with a checkpoint; returns at once."""
        ...
