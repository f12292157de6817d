"""What passes between a running attempt and its ledger: how far it is, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
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


def progress_sentence(progress: Progress) -> str:
    """Step, loss, speed and remaining time, as far as they are known."""
    parts = []
    if progress.step is not None:
        parts.append(f"step {progress.step}" + (f"/{progress.total_steps}" if progress.total_steps else ""))
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.throughput_samples_per_s is not None:
        parts.append(f"{progress.throughput_samples_per_s:,.0f} samples/s")
    if progress.eta_s is not None:
        parts.append(f"ETA {timedelta(seconds=round(progress.eta_s))}")
    if progress.last_committed_step is not None:
        parts.append(f"checkpoint at step {progress.last_committed_step}")
    return ", ".join(parts)
