"""What passes between a running attempt and its ledger: how far it is, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Progress:
    """What a heartbeat said last; `throughput_samples_per_s` and `eta_s` as the program measured them."""

    step: int | None = None
    total_steps: int | None = None
    samples: int | None = None
    loss: float | None = None
    throughput_samples_per_s: float | None = None
    eta_s: float | None = None
    last_committed_step: int | None = None
    claimed_attempt: int | None = None
    phase: str = ""


class Directive(StrEnum):
    """What a supervisor is told when it renews its lease."""

    GO_ON = "go on"
    STOP = "stop"  # checkpoint, exit 75
    SUPERSEDED = "superseded"  # a newer attempt exists, or the submission is over: stop without committing
