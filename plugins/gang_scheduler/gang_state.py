"""The states of a submission, and which of them hold capacity, count as alive, or are final."""

from __future__ import annotations

from enum import StrEnum


class GangState(StrEnum):
    """Where a submission stands; the clock that runs in each state is in `CLOCK_OF`."""

    QUEUED = "queued"  # asked for, holds nothing
    ADMITTED = "admitted"  # placed; its launch is in the outbox; lapses at start-by
    STARTING = "starting"  # a supervisor confirmed the attempt; no progress seen yet
    RUNNING = "running"  # the attempt was claimed by rank 0 and makes steps
    STOPPING = "stopping"  # asked to checkpoint and end
    UNKNOWN = "unknown"  # lease expired, no proof of death: capacity stays held
    RECOVERING = (
        "recovering"  # the attempt has ended (proven); unless the next plan finishes it, it will be tried again
    )
    INTERRUPTED = "interrupted"  # stopped on request with what it had; resumes if asked for again
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Clock(StrEnum):
    """The four clocks of a submission."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RECOVERING = "recovering"


HOLDS_CAPACITY = frozenset(
    {GangState.ADMITTED, GangState.STARTING, GangState.RUNNING, GangState.STOPPING, GangState.UNKNOWN}
)
ENDED = frozenset({GangState.INTERRUPTED, GangState.SUCCEEDED, GangState.FAILED})
WAITS_FOR_CAPACITY = frozenset({GangState.QUEUED, GangState.RECOVERING})

CLOCK_OF: dict[GangState, Clock] = {
    GangState.QUEUED: Clock.QUEUED,
    GangState.ADMITTED: Clock.STARTING,
    GangState.STARTING: Clock.STARTING,
    GangState.RUNNING: Clock.RUNNING,
    GangState.STOPPING: Clock.RUNNING,
    GangState.UNKNOWN: Clock.RECOVERING,
    GangState.RECOVERING: Clock.RECOVERING,
}
