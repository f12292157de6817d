"""A gang in a planning pass: what its place in line and its claim on capacity rest on, in seconds."""

from __future__ import annotations

from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.gang_state import GangState
from gang_scheduler.policy import Order, Policy
from gang_scheduler.snapshot import GangView

_MAKES_PROGRESS = frozenset({GangState.RUNNING, GangState.STOPPING, GangState.UNKNOWN})


class Entry:
    """One live submission; waits if it has no placement.

    Times are seconds on the ledger's clock. `attained_s` is what earlier attempts ran, `overhead_s` what the present
    one spends before it makes progress (a simulator knows that; else 0). `expected_s` is the whole duration at compute
    1.0, None if unknown. `stops` is true from the moment it is asked to stop until it has; `stopped_before` counts the
    earlier attempts that were stopped on request.
    """

    __slots__ = (
        "attained_s",
        "compute",
        "expected_s",
        "gang_key",
        "is_aged",
        "key",
        "kind",
        "not_before_s",
        "overhead_s",
        "place_in_line",
        "placement",
        "queue",
        "queued_s",
        "request",
        "saved_s",
        "size",
        "started_s",
        "state",
        "stopped_before",
        "stops",
        "submitted_s",
        "total",
        "waits_since_s",
    )

    def __init__(self, key: AttemptKey, request: GangRequest, submitted_s: float) -> None:
        """A gang that waits since it was submitted."""
        self.key = key
        self.gang_key = key[:2]
        self.request = request
        self.queue = request.gang_queue
        self.submitted_s = submitted_s
        self.waits_since_s = submitted_s
        self.queued_s = 0.0
        self.state = GangState.QUEUED
        self.placement: Placement | None = None
        self.started_s = submitted_s
        self.saved_s: float | None = None
        self.attained_s = 0.0
        self.overhead_s = 0.0
        self.compute = 1.0
        self.expected_s = request.expected_s
        self.not_before_s = 0.0
        self.stops = False
        self.stopped_before = 0
        self.is_aged = False
        self.total = request.total
        self.size = request.size
        self.kind = request.kind
        self.place_in_line: tuple[object, ...] = ()

    @staticmethod
    def of(view: GangView, now_s: float) -> Entry:
        """A gang of a snapshot."""
        state = view.state
        entry = Entry(view.key, view.request, view.submitted_at_s)
        if entry.expected_s is None and view.learned_duration is not None:
            entry.expected_s = view.learned_duration.total_seconds()
        entry.state = state
        since_s = entry.waits_since_s = view.state_since_s
        if view.running_spent:
            entry.attained_s = view.running_spent.total_seconds()
        if view.queued_spent or view.recovering_spent:  # who waits after a fault waits
            entry.queued_s = (view.queued_spent + view.recovering_spent).total_seconds()
        if view.not_before is not None:
            entry.not_before_s = view.not_before.timestamp()
        if view.attempt > 1:
            ends = view.attempt - view.holds_capacity
            entry.stopped_before = max(0, ends - view.infrastructure_ends - view.user_ends)
        if view.holds_capacity:
            entry.placement = view.placement
            entry.started_s = since_s
            entry.go_on(view, now_s)
            entry.stops = state is GangState.STOPPING
        return entry

    def line_up(self, now_s: float, policy: Policy) -> None:
        """Take its place among those that wait: by priority, age, then the policy's order."""
        self.place_in_line = (
            -self.request.gang_priority,
            not self.is_aged,
            self.request.harvests,
            self.rank(now_s, policy),
            self.submitted_s,
            *self.gang_key,
        )

    def go_on(self, view: GangView, now_s: float) -> None:
        """It holds capacity, and it is later now: who makes no progress yet starts at the earliest now."""
        self.saved_s = view.saved_at.timestamp() if view.saved_at else None
        if self.state not in _MAKES_PROGRESS:
            self.started_s = now_s

    def ran_s(self, now_s: float) -> float:
        """How long the present attempt has made progress."""
        return max(0.0, now_s - self.started_s - self.overhead_s) if self.placement is not None else 0.0

    def remaining_s(self, now_s: float, policy: Policy) -> float:
        """What is left to run, at compute 1.0.

        Past its estimate, or without one, a gang is taken to run as long again as it has (the longer it has run, the
        longer it is likely to go on), and at least a tenth of the estimate, or `assumed_duration`.
        """
        attained = self.attained_s
        if self.placement is not None:
            attained += self.ran_s(now_s) * self.compute
        if self.expected_s is None:
            return max(attained, policy.assumed_duration.total_seconds())
        left = self.expected_s - attained
        return left if left > 0 else max(attained - self.expected_s, self.expected_s / 10) if attained else 0.0

    def end_s(self, now_s: float, policy: Policy) -> float:
        """When it will end if it goes on, or starts, now."""
        if self.placement is None:
            return now_s + self.overhead_s + self.remaining_s(now_s, policy) / self.compute
        not_yet = max(0.0, self.started_s + self.overhead_s - now_s)
        return now_s + not_yet + self.remaining_s(now_s, policy) / self.compute

    def rank(self, now_s: float, policy: Policy) -> float:
        """Its place among its equals by the policy's order: the less, the sooner."""
        match policy.order:
            case Order.DUE:
                return self.submitted_s + policy.stretch * self.remaining_s(now_s, policy)
            case Order.FIFO:
                return self.submitted_s
            case Order.SJF:
                return policy.assumed_duration.total_seconds() if self.expected_s is None else self.expected_s
            case Order.SRSF:
                return self.remaining_s(now_s, policy) * self.size
            case Order.LAS:
                return float(service_class(self.attained_s + self.ran_s(now_s), self.size, policy))

    def has_had_its_run(self, now_s: float, policy: Policy) -> bool:
        """True if it may be stopped again for one that is no more urgent: each time it is left to run twice as long.

        So a gang that runs for D in all is stopped at most log2(D / min_run) + 1 times, however crowded the pool.
        """
        ran_s = self.ran_s(now_s)  # never at the moment of its start, whatever `min_run` says: it would start again
        return ran_s > 0 and ran_s >= policy.min_run.total_seconds() * 2.0 ** min(self.stopped_before, 16)

    def waited_s(self, now_s: float) -> float:
        """How long it has waited in all; only this ages it, not the time that it ran."""
        return self.queued_s + (now_s - self.waits_since_s if self.placement is None else 0.0)

    def lost_s(self, now_s: float) -> float:
        """The work, in seconds x size, that a stop without a checkpoint would lose."""
        since = self.started_s + self.overhead_s if self.saved_s is None else max(self.saved_s, self.started_s)
        return max(0.0, now_s - since) * self.size


def service_class(attained_s: float, size: float, policy: Policy) -> int:
    """The class of attained service (discretised, after Tiresias, NSDI'19), 0 first."""
    service, bound = attained_s * size, policy.las_first.total_seconds()
    number = 0
    while service >= bound and bound > 0 and policy.las_factor > 1:
        number += 1
        bound *= policy.las_factor
    return number
