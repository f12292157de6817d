"""A gang as the replay keeps it: what it has done, where it stands, and its history."""

from __future__ import annotations

from dataclasses import dataclass, field

from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.verdict import Verdict
from gang_simulator.jobs import Job

SUBMISSION = 1


def instant(seconds: float) -> float:
    """The time in whole microseconds, as `datetime` keeps it."""
    return round(seconds, 6)


@dataclass(frozen=True, slots=True)
class Stretch:
    """One attempt: from when until when it held which nodes."""

    began_s: float
    ended_s: float
    nodes: tuple[str, ...]
    how: str  # "ended", "stopped" or "lost"


@dataclass(slots=True, eq=False)
class SimGang:
    """All times are seconds since the epoch; `spent_s` is the run time of earlier attempts, as a ledger counts it.

    `done_s` is the part of the job's duration that is behind it and safe; `compute` is the speed of its placement.
    `overhead_s` is what the present attempt spends before it makes progress.
    """

    job: Job
    request: GangRequest
    submitted_s: float
    attempt: int = 0
    waits_since_s: float = 0.0
    queued_s: float = 0.0  # earlier waits for capacity
    recovering_s: float = 0.0  # earlier waits after a fault
    spent_s: float = 0.0
    done_s: float = 0.0
    placement: Placement | None = None
    began_s: float = 0.0
    overhead_s: float = 0.0
    compute: float = 1.0
    not_before_s: float | None = None
    has_met_fault: bool = False  # waits because of one
    faults: int = 0
    verdict: Verdict | None = None
    first_began_s: float | None = None
    ended_s: float | None = None
    preemptions: int = 0
    lost_s: float = 0.0  # work done again after faults, at compute 1.0
    overheads_s: float = 0.0
    held_s: float = 0.0
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def key(self) -> AttemptKey:
        """The present or last attempt."""
        return AttemptKey(self.request.gang_id, SUBMISSION, self.attempt)

    @property
    def waited_s(self) -> float:
        """All its earlier waits."""
        return instant(self.queued_s + self.recovering_s)

    def ran_s(self, now_s: float) -> float:
        """How long the present attempt has made progress, on the wall's clock."""
        return max(0.0, instant(now_s - self.began_s - self.overhead_s))

    def end_s(self) -> float:
        """When the present attempt will be done if nothing stops it."""
        return instant(self.began_s + self.overhead_s + (self.job.duration_s - self.done_s) / self.compute)

    def saved_s(self, now_s: float, every_s: float | None) -> float | None:
        """When its last checkpoint of this attempt was; None if there is none yet."""
        ran_s = self.ran_s(now_s)
        if every_s is None or ran_s < every_s:
            return None
        return instant(self.began_s + self.overhead_s + ran_s // every_s * every_s)

    # --- what happens to it

    def begin(self, now_s: float, placement: Placement, overhead_s: float, compute: float) -> None:
        """It starts, or starts again."""
        waited_s = instant(now_s - self.waits_since_s)
        if self.has_met_fault:
            self.recovering_s = instant(self.recovering_s + waited_s)
        else:
            self.queued_s = instant(self.queued_s + waited_s)
        self.attempt += 1
        self.placement, self.began_s, self.overhead_s, self.compute = placement, now_s, overhead_s, compute
        self.not_before_s, self.has_met_fault = None, False
        if self.first_began_s is None:
            self.first_began_s = now_s

    def stop(self, now_s: float) -> None:
        """It saves its state, stops and waits again."""
        ran_s = self._leave(now_s, "stopped")
        self.done_s = min(self.job.duration_s, self.done_s + ran_s * self.compute)
        self.preemptions += 1

    def lose_node(self, now_s: float, every_s: float | None) -> None:
        """A node under it fails: what it did since its last checkpoint is lost."""
        saved_s = self.saved_s(now_s, every_s)
        kept_s = 0.0 if saved_s is None else saved_s - self.began_s - self.overhead_s
        ran_s = self._leave(now_s, "lost")
        self.done_s = min(self.job.duration_s, self.done_s + kept_s * self.compute)
        self.lost_s += (ran_s - kept_s) * self.compute
        self.faults += 1
        self.has_met_fault = True

    def finish(self, now_s: float) -> None:
        """It is done."""
        self._leave(now_s, "ended")
        self.done_s = self.job.duration_s
        self.ended_s = now_s

    def _leave(self, now_s: float, how: str) -> float:
        assert self.placement is not None
        ran_s = self.ran_s(now_s)
        self.spent_s = instant(self.spent_s + ran_s)
        self.held_s += now_s - self.began_s
        self.overheads_s += now_s - self.began_s - ran_s
        self.stretches.append(Stretch(self.began_s, now_s, self.placement.nodes, how))
        self.placement = None
        self.waits_since_s = now_s
        return ran_s
