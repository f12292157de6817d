"""What `plan` sees: pools, nodes and gangs at one moment of the ledger database's clock."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from gang_scheduler.gang import AttemptKey, GangRequest, Key, Placement
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.gang_state import HOLDS_CAPACITY, GangState
from gang_scheduler.node import NodeView as NodeView
from gang_scheduler.policy import DEFAULT_POLICY, Policy
from gang_scheduler.pool import PoolView
from gang_scheduler.verdict import Verdict


@dataclass(frozen=True)  # without slots: what is derived from it is worked out once and kept with it
class GangView:
    """A submission that is not over, as the plan sees it.

    `state_since` is when it entered its state; the `..._spent` hold what its clocks had run before that.
    `verdict` is that of the last attempt if it has ended and is not yet acted upon; the counts of ends include it.
    `is_released`: nobody wants it any more, so it stops for good; a stop without that is followed by another attempt.
    `limit_verdict`: it stops because a limit was reached, and fails by this verdict. `is_held`: a person keeps it from
    being admitted. `learned_duration` is what past runs of the same DAG and task took, `learned_error` the relative
    error (0.3: 30 %) that such guesses had; `saved_at` is when its last committed checkpoint was seen. `kept` is what
    plans have worked out of all that, for the next one.
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
    is_held: bool = False
    held_why: str = ""
    learned_duration: timedelta | None = None
    learned_error: float | None = None
    saved_at: datetime | None = None
    kept: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def key(self) -> AttemptKey:
        """The current attempt."""
        return AttemptKey(self.request.gang_id, self.submission, self.attempt)

    @cached_property
    def gang_key(self) -> Key:
        """The submission, whatever its attempt."""
        return self.request.gang_id, self.submission

    @cached_property
    def submitted_at_s(self) -> float:
        """`submitted_at` as seconds since 1970."""
        return self.submitted_at.timestamp()

    @cached_property
    def state_since_s(self) -> float:
        """`state_since` as seconds since 1970."""
        return self.state_since.timestamp()

    @cached_property
    def holds_capacity(self) -> bool:
        """True while its attempt runs or may be running."""
        return self.state in HOLDS_CAPACITY

    @property
    def expected_duration(self) -> timedelta | None:
        """What its author says, else what was learned of past runs; None: unknown."""
        return self.request.expected_duration or self.learned_duration


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision may rest on; equal snapshots give equal plans.

    `now` is the ledger database's transaction time; `version` is the change number that a commit must match.
    """

    now: datetime
    version: int
    nodes: tuple[NodeView, ...] = ()
    gangs: tuple[GangView, ...] = field(default_factory=tuple)
    pools: tuple[PoolView, ...] = ()  # one that has nodes and is not listed has no levels and no limits
    queues: tuple[QueueView, ...] = ()  # one that is not listed has no quota and no limits
    policy: Policy = DEFAULT_POLICY
