"""Why an attempt ended and what happens next: the verdict, and the facts that it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Cause(StrEnum):
    """The cause of an attempt's end."""

    DONE = "done"
    BAD_SPEC = "bad spec"
    BAD_DATA = "bad data"
    PROGRAM_ERROR = "program error"
    INTERRUPTED = "interrupted"  # exit 75: a checkpoint was committed on request
    SUPERSEDED = "superseded"  # a newer attempt of the submission exists
    STOPPED_BY_OTHERS = "stopped by others"  # exit 75, though nobody asked the supervisor to stop it
    RANK_KILLED = "rank killed"
    AGENT_KILLED = "agent killed"
    SUPERVISOR_LOST = "supervisor lost"
    NODE_LOST = "node lost"
    LAUNCH_FAILED = "launch failed"
    LAPSED = "not launched in time"
    LIMIT_REACHED = "limit reached"
    UNKNOWN = "unknown"


class CauseClass(StrEnum):
    """Who pays for a cause."""

    SUCCESS = "success"
    USER = "user"
    INFRASTRUCTURE = "infrastructure"
    REQUESTED = "requested"


CLASS_OF: dict[Cause, CauseClass] = {
    Cause.DONE: CauseClass.SUCCESS,
    Cause.BAD_SPEC: CauseClass.USER,
    Cause.BAD_DATA: CauseClass.USER,
    Cause.PROGRAM_ERROR: CauseClass.USER,
    Cause.LIMIT_REACHED: CauseClass.USER,
    Cause.INTERRUPTED: CauseClass.REQUESTED,
    Cause.SUPERSEDED: CauseClass.REQUESTED,
    Cause.STOPPED_BY_OTHERS: CauseClass.INFRASTRUCTURE,
    Cause.RANK_KILLED: CauseClass.INFRASTRUCTURE,
    Cause.AGENT_KILLED: CauseClass.INFRASTRUCTURE,
    Cause.SUPERVISOR_LOST: CauseClass.INFRASTRUCTURE,
    Cause.NODE_LOST: CauseClass.INFRASTRUCTURE,
    Cause.LAUNCH_FAILED: CauseClass.INFRASTRUCTURE,
    Cause.LAPSED: CauseClass.INFRASTRUCTURE,
    Cause.UNKNOWN: CauseClass.INFRASTRUCTURE,
}


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """How one rank ended, as it wrote itself (`outcome-rank<r>.json`) or as the agent saw it."""

    rank: int
    exit_code: int | None  # negative: killed by that signal; None: no word of it
    error_type: str = ""
    error_message: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The facts known when an attempt is over: no judgement in them.

    `agent_exit_code` is the torchrun agent's (negative: a signal); None if nobody saw it end.
    `was_asked_to_stop` is true if the supervisor had been told to stop the attempt.
    `proof` says how its end is known, e.g. "supervisor saw the agent exit" or "pid 77 is gone on this boot".
    """

    agent_exit_code: int | None
    ranks: tuple[RankOutcome, ...] = ()
    was_asked_to_stop: bool = False
    was_superseded: bool = False
    last_step: int | None = None
    last_committed_step: int | None = None
    proof: str = ""
    log_tail: str = ""
    forced_cause: Cause | None = None  # set where the cause is known without looking, e.g. LAPSED


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause of an attempt's end, how sure that is, what it rests on and what happens next.

    `sentence` is for people; `confidence` is in 0..1; `next_act` is one of relaunch, finish, fail, rest.
    """

    cause: Cause
    confidence: float
    sentence: str
    next_act: str
    evidence: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def cause_class(self) -> CauseClass:
        """Which budget the cause is charged to."""
        return CLASS_OF[self.cause]
