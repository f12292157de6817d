"""Progress of a run, for people (lines on standard output) and for machines (the heartbeat)."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from training import heartbeat
from training.attempts import Claim
from training.heartbeat import Heartbeat, Phase
from training.seeing.watch import Watch
from training.world import World

SECONDS_BETWEEN = 0.5  # heartbeats; the contract asks for one a second while steps are made
SECONDS_BETWEEN_LINES = 1.0


@dataclass(slots=True)
class Progress:
    """Rank 0's reporter. Throughput and remaining time are those of this attempt."""

    world: World
    claim: Claim
    total_steps: int
    last_committed_step: int | None = None
    last_committed_at: str | None = None
    _started_at: float = field(default_factory=time.monotonic)
    watch: Watch | None = None
    _at_risk_since: float = field(default_factory=time.monotonic)
    _samples_before: int = 0
    _beat_at: float = float("-inf")
    _line_at: float = float("-inf")

    def say(self, line: str) -> None:
        """Write a line that reaches whoever follows the log at once."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def start_clock(self, samples: int) -> None:
        """Measure throughput from here on."""
        self._started_at, self._samples_before = time.monotonic(), samples
        self._at_risk_since = self._started_at

    def committed(self, step: int, at: str) -> None:
        """Note the newest checkpoint."""
        self.last_committed_step, self.last_committed_at = step, at
        self._at_risk_since = time.monotonic()

    def is_due(self) -> bool:
        """Whether the next heartbeat should be written."""
        return time.monotonic() - self._beat_at >= SECONDS_BETWEEN

    def beat(self, phase: Phase, step: int, samples: int, loss: float | None) -> None:
        """Write the heartbeat, and while training a line, if the last is a second old."""
        now = time.monotonic()
        elapsed_s, fresh = now - self._started_at, samples - self._samples_before
        throughput = fresh / elapsed_s if fresh and elapsed_s else None
        eta_s = (self.total_steps - step) * (samples / step) / throughput if throughput and step else None
        seen = asdict(self.watch.seen(throughput)) if self.watch else {}
        heartbeat.write(
            self.world.run_dir,
            Heartbeat(
                step=step,
                total_steps=self.total_steps,
                samples=samples,
                loss=loss,
                throughput_samples_per_s=None if throughput is None else round(throughput, 1),
                eta_s=None if eta_s is None else round(eta_s, 1),
                last_committed_step=self.last_committed_step,
                last_committed_at=self.last_committed_at,
                attempt=self.claim.attempt,
                launch=self.world.launch,
                at=datetime.now(UTC).isoformat(timespec="milliseconds"),
                phase=phase,
                checkpoint_age_s=round(now - self._at_risk_since, 1),
                **seen,
            ),
        )
        self._beat_at = now
        is_last = step == self.total_steps
        if phase == "training" and loss is not None and (is_last or now - self._line_at >= SECONDS_BETWEEN_LINES):
            speed = "" if throughput is None else f"  {throughput:,.0f} samples/s"
            left = "" if eta_s is None else f"  ETA {eta_s:.0f} s"
            self.say(f"step {step}/{self.total_steps}  loss {loss:.4f}{speed}{left}")
            self._line_at = now
