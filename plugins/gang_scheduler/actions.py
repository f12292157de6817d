"""What `plan` may decide; each action carries its reason as a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from gang_scheduler.gang import AttemptKey, Placement
from gang_scheduler.gang_state import GangState
from gang_scheduler.verdict import Verdict


class WaitReason(StrEnum):
    """Why a gang waits; a page and a test switch on it."""

    NO_CAPACITY = "no capacity"
    BEHIND_ANOTHER_GANG = "behind another gang"
    BACKING_OFF = "backing off"
    NO_NODES = "no nodes"
    STOPPING_FIRST = "stopping first"
    PREEMPTING = "preempting"  # others were asked to make room for it
    RESERVED = "reserved"  # it would fit, and would delay one before it
    QUOTA = "quota"
    WINDOW = "window"  # its queue is closed at this hour
    STORAGE = "storage"
    POWER = "power"
    HELD = "held"  # by a person


class StopReason(StrEnum):
    """Why a plan asks an attempt to stop; a page and a test switch on it."""

    ASKED = "asked"
    LIMIT = "limit"
    LATE = "late"
    PREEMPTED = "preempted"
    RECLAIMED = "reclaimed"  # its queue had borrowed what the owner wants back
    SHRINKS = "shrinks"  # makes room by going on with fewer workers
    GROWS = "grows"  # goes on with more workers, since the pool is idle
    WINDOW = "window"  # its queue closes
    NODE = "node"  # its node is drained or faulty


@dataclass(frozen=True, slots=True)
class Admit:
    """Place the gang and launch its next attempt (`key.attempt` is the new number) before `start_within` is over."""

    key: AttemptKey
    placement: Placement
    start_within: timedelta
    sentence: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The gang goes on waiting, for a new reason."""

    key: AttemptKey
    reason: WaitReason
    sentence: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """The ended attempt is recovered: the submission waits for capacity again, not before `back_off` is over."""

    key: AttemptKey
    back_off: timedelta
    sentence: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The submission is over: succeeded, failed or resting (interrupted), by this verdict."""

    key: AttemptKey
    state: GangState
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class AskStop:
    """Stop the attempt with a checkpoint (outbox); a reached limit comes with the verdict it will end with."""

    key: AttemptKey
    sentence: str
    verdict: Verdict | None = None
    reason: StopReason = StopReason.ASKED


@dataclass(frozen=True, slots=True)
class MarkUnknown:
    """The lease has expired: ask the backend; capacity stays held."""

    key: AttemptKey
    sentence: str


@dataclass(frozen=True, slots=True)
class Lapse:
    """The grant was not launched by its start-by time: the attempt is void."""

    key: AttemptKey
    sentence: str


Action = Admit | Wait | Requeue | Finish | AskStop | MarkUnknown | Lapse
