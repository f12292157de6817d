"""What `plan` sees: pools, nodes and gangs at one moment of the ledger database's clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.gang_state import HOLDS_CAPACITY, GangState
from gang_scheduler.resources import Resources
from gang_scheduler.verdict import Verdict


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of a pool; cordoned nodes take no new workers."""

    pool: str
    node: str
    capacity: Resources
    is_cordoned: bool = False
    cordon_reason: str = ""


@dataclass(frozen=True, slots=True)
class GangView:
    """A submission that is not over, as the plan sees it.

    `state_since` is when it entered its state; the `..._spent` hold what its clocks had run before that.
    `verdict` is that of the last attempt if it has ended and is not yet acted upon; the counts of ends include it.
    `is_released`: nobody wants it any more, so it stops for good; a stop without that is followed by another attempt.
    `limit_verdict`: it stops because a limit was reached, and fails by this verdict.
    """

    request: GangRequest
    submission: int
    attempt: int
    state: GangState
    submitted_at: datetime
    state_since: datetime
    placement: Placement | None = None
    admitted_at: datetime | None = None
    start_by: datetime | None = None
    lease_expires_at: datetime | None = None
    stop_is_requested: bool = False
    stop_deadline: datetime | None = None
    stop_why: str = ""
    is_released: bool = False
    limit_verdict: Verdict | None = None
    verdict: Verdict | None = None
    infrastructure_ends: int = 0
    user_ends: int = 0
    not_before: datetime | None = None
    queued_spent: timedelta = timedelta()
    starting_spent: timedelta = timedelta()
    running_spent: timedelta = timedelta()
    recovering_spent: timedelta = timedelta()
    wait_reason: str = ""
    wait_sentence: str = ""

    @property
    def key(self) -> AttemptKey:
        """The current attempt."""
        return AttemptKey(self.request.gang_id, self.submission, self.attempt)

    @property
    def holds_capacity(self) -> bool:
        """True while its attempt runs or may be running."""
        return self.state in HOLDS_CAPACITY


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision may rest on; equal snapshots give equal plans.

    `now` is the ledger database's transaction time; `version` is the change number that a commit must match.
    """

    now: datetime
    version: int
    nodes: tuple[NodeView, ...] = ()
    gangs: tuple[GangView, ...] = field(default_factory=tuple)
