"""The newest sign of progress, for whoever watches from outside."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from training.files import write_json

SCHEMA = 1
NAME = "heartbeat.json"
Phase = Literal["starting", "training", "checkpointing", "done"]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What `heartbeat.json` says.

    `at` and `last_committed_at` are the writer's clock (UTC, ISO 8601): shown, never compared with another machine's.
    `checkpoint_age_s` is how much of this attempt's time would be lost with it now. The fields after it are those of
    `training.seeing.watch.Seen`; a program that doesn't know them leaves them out.
    """

    step: int
    total_steps: int
    samples: int
    loss: float | None
    throughput_samples_per_s: float | None
    eta_s: float | None
    last_committed_step: int | None
    last_committed_at: str | None
    attempt: int
    launch: int
    at: str
    phase: Phase
    schema: int = SCHEMA
    checkpoint_age_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    rss_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    step_seconds: dict[str, float] | None = None
    straggler_scores: list[float] | None = None


def write(run_dir: Path, heartbeat: Heartbeat) -> None:
    """Replace the run folder's heartbeat."""
    write_json(run_dir / NAME, asdict(heartbeat), durable=False)


def read(run_dir: Path) -> Heartbeat | None:
    """The run folder's heartbeat; None if there is none yet, or none that can be read."""
    try:
        content = json.loads((run_dir / NAME).read_bytes())
        required = [field.name for field in fields(Heartbeat) if field.default is MISSING]
        known = {field.name for field in fields(Heartbeat)}
        return Heartbeat(**{name: content[name] for name in (*required, *known.intersection(content))})
    except (OSError, ValueError, KeyError, TypeError):
        return None
