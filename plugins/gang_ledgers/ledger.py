"""The ledger protocol: what every ledger does, and the records that it hands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from gang_scheduler.actions import Action
from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.gang_state import Clock, GangState
from gang_scheduler.node import NodeState
from gang_scheduler.policy import DEFAULT_POLICY
from gang_scheduler.progress import Directive as Directive
from gang_scheduler.progress import Progress as Progress
from gang_scheduler.snapshot import NodeView, Snapshot
from gang_scheduler.submission_rules import Claim as Claim
from gang_scheduler.submission_rules import How as How
from gang_scheduler.verdict import AttemptEnd, Verdict


class LedgerError(Exception):
    """Base of what a ledger raises on purpose."""


class StaleSnapshot(LedgerError):
    """The ledger has changed since the snapshot that the actions were planned on; nothing was written."""


class NewerSchema(LedgerError):
    """The database was written by a newer version of Phalanx; this one refuses to touch it."""


class LedgerUnavailable(LedgerError):
    """The database can't be reached or does not answer in time; what was asked may or may not have happened."""


class HostTaken(LedgerError):
    """A node is registered for another host, which still holds gangs in it."""


class UnknownGang(LedgerError):
    """No gang of that id was ever asked for."""


class GangHasEnded(LedgerError):
    """What was asked is for gangs that wait or run; the message says how to have it run again."""


class UnknownNode(LedgerError):
    """No such node is registered; the message names those that are."""


class RequestRefused(LedgerError):
    """The request can never be admitted or is not allowed; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to `submit`; `sentence` says what was decided and why, for the task log."""

    gang_id: str
    submission: int
    state: GangState
    how: How
    sentence: str
    run_dir: str
    resume_from: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangRecord:
    """One submission as the ledger has it now."""

    gang_id: str
    submission: int
    attempt: int
    state: GangState
    request: GangRequest
    run_dir: str
    owner: str
    submitted_at: datetime
    resume_from: str = ""
    placement: Placement | None = None
    backend_ref: str = ""
    lease_expires_at: datetime | None = None
    wait_reason: str = ""
    wait_sentence: str = ""
    progress: Progress | None = None
    verdict: Verdict | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    clocks: Mapping[Clock, timedelta] = field(default_factory=dict)
    infrastructure_ends: int = 0
    user_ends: int = 0
    ended_at: datetime | None = None
    change: int = 0  # grows with every change of the record; a watcher compares it
    is_held: bool = False
    held_why: str = ""


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One thing that happened, in the order it happened (`number` grows, `at` is the database's time)."""

    number: int
    at: datetime
    gang_id: str
    submission: int
    attempt: int
    event: str
    sentence: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """An act decided by the plan, to be carried out once by whoever claims it; each is idempotent by its key."""

    number: int
    kind: str  # "launch" | "stop" | "probe"
    key: AttemptKey
    pool: str
    request: GangRequest
    placement: Placement
    run_dir: str
    resume_from: str = ""
    backend_ref: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as its backend registers it, and the host that serves it; what conditions say of it is not registered."""

    host_id: str
    node: NodeView


CORDON = "cordon"  # set by a person
HOST_CLOSED = "host closed"  # set while the host goes down


class ConditionState(StrEnum):
    """Whether what a condition says is so."""

    SET = "set"
    CLEARED = "cleared"
    UNKNOWN = "unknown"  # it can't be seen any more


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """One thing that is said of a node; those of other kinds stand beside it.

    `effect` is what it makes of the node while it is set; one with the effect READY only warns. A condition that can't
    be seen any more makes the node UNKNOWN, unless it only warned.
    """

    pool: str
    node: str
    kind: str
    state: ConditionState
    who: str
    why: str
    effect: NodeState = NodeState.CORDONED
    since: datetime | None = None  # when it last changed; given by the ledger


class Ledger(Protocol):
    """Transactional, idempotent, safe for many processes at once; every time is the database's."""

    def close(self) -> None:
        """Close all connections; the ledger can be used again and then opens new ones."""
        ...

    # people and tasks who ask
    def submit(self, request: GangRequest, claim: Claim) -> Submitted: ...
    def release(self, gang_id: str, owner: str | None, who: str, why: str) -> bool:
        """Ask the gang to stop with a checkpoint and rest (INTERRUPTED).

        Ignored (False) unless `owner` is the current owner or None (an operator's cancel).
        """
        ...

    def hold(self, gang_id: str, who: str, why: str) -> GangRecord:
        """Keep the gang from being admitted, until the hold is lifted; an attempt that runs goes on.

        Raises:
            UnknownGang, GangHasEnded
        """
        ...

    def lift_hold(self, gang_id: str, who: str, why: str) -> GangRecord:
        """Let the gang be admitted again; harmless if it is not held. Raises as `hold` does."""
        ...

    def requeue(self, gang_id: str, who: str, why: str) -> GangRecord:
        """Stop the attempt with a checkpoint and queue the gang again, charging no budget; lift any back-off.

        Raises as `hold` does.
        """
        ...

    def state(self, gang_id: str) -> GangRecord | None:
        """The newest submission of the gang."""
        ...

    def states(self, gang_ids: Sequence[str]) -> dict[str, GangRecord]:
        """The newest submission of each gang, in one query."""
        ...

    def submissions(self, gang_id: str) -> list[GangRecord]:
        """All submissions of the gang, oldest first."""
        ...

    def list_gangs(self, *, live_only: bool = False, limit: int = 200) -> list[GangRecord]: ...
    def history(self, gang_id: str | None = None) -> list[HistoryRow]: ...

    # the nodes
    def register_node(self, node: NodeRecord) -> None:
        """Make the node known, or its new size; a cordon stays. LedgerError if another host holds gangs in it."""
        ...

    def nodes(self) -> list[NodeView]: ...
    def set_condition(self, condition: NodeCondition) -> bool:
        """Say something of a node, or say it no more (`state`); False if it was so already.

        A cordon set by hand is such a condition (of kind CORDON), and so is every fault that is found.

        Raises:
            UnknownNode
        """
        ...

    def conditions(self) -> list[NodeCondition]:
        """What is said of nodes, by pool, node and kind; cleared ones are left out."""
        ...

    def close_host(self, host_id: str, why: str) -> list[AttemptKey]:
        """Cordon the host's nodes and ask the attempts there to stop without a release: they are requeued."""
        ...

    def open_host(self, host_id: str) -> None:
        """Lift what `close_host` set; other cordons stay."""
        ...

    # the tick
    def has_work(self) -> bool:
        """False if nothing is live and nothing is to be carried out: one small query."""
        ...

    def tick_lock(self) -> AbstractContextManager[bool]:
        """A try-lock over all processes: yields False at once if another one ticks."""
        ...

    def snapshot(self, usage_half_life: timedelta = DEFAULT_POLICY.usage_half_life) -> Snapshot:
        """What `plan` sees; pools and policy are for the caller to add, and queues have their usage only.

        What the ledger has read before is kept in the process, so only what has changed since is read.
        """
        ...

    def queue_usage(self, half_life: timedelta = DEFAULT_POLICY.usage_half_life) -> Mapping[str, float]:
        """What each queue has used until now, in dominant shares of pools x seconds; past use counts for less.

        The dominant share of a gang is the largest of the parts that it holds of its pool's resources.
        """
        ...

    def commit(self, actions: Sequence[Action], expected_version: int) -> int:
        """Write all actions or none; raises StaleSnapshot if the version has moved; returns the new version."""
        ...

    def claim_outbox(self, host_id: str, limit: int = 16) -> list[OutboxItem]:
        """Items for that host that nobody else holds; a claim expires, so an unfinished item comes again."""
        ...

    def finish_outbox(self, number: int, *, backend_ref: str = "", error: str = "") -> None: ...
    def prune(self, keep: timedelta) -> int:
        """Forget what ended longer ago than `keep`; returns how many rows were removed.

        The history of such submissions goes. The submissions themselves stay while they are the newest of their gang,
        or somebody may take over their result or resume their checkpoints.
        """
        ...

    # the supervisor of one attempt
    def start(self, key: AttemptKey, backend_ref: str) -> bool:
        """True if the attempt is still the current one, admitted and not asked to stop: only then may it run."""
        ...

    def renew(self, key: AttemptKey, progress: Progress | None) -> Directive: ...
    def end_attempt(self, key: AttemptKey, end: AttemptEnd, result: Mapping[str, Any] | None = None) -> None:
        """Record that the attempt is over (idempotent); capacity is free from here on; the next plan decides."""
        ...
