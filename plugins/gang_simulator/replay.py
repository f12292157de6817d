"""The replay: all events of one instant happen, then decisions are asked for until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf

from gang_scheduler.actions import Requeue
from gang_scheduler.gang import Placement
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeState
from gang_scheduler.policy import Order
from gang_scheduler.recovery import after_end
from gang_scheduler.snapshot import GangView
from gang_scheduler.verdict import Cause, Verdict
from gang_simulator.by_plan import at
from gang_simulator.cluster import Cluster, request_of
from gang_simulator.decider import Decided, Decider
from gang_simulator.event_queue import Event, EventQueue
from gang_simulator.faults import Fault
from gang_simulator.jobs import Job
from gang_simulator.occupancy import Moment, Occupancy
from gang_simulator.settings import ReplaySettings
from gang_simulator.sim_gang import SUBMISSION, SimGang, instant
from gang_simulator.usage import UsageHistory

# Decisions at one instant; each starts or stops somebody, so more than that is a scheduler that goes in circles.
MOST_ROUNDS = 1_000
_LONGEST_IDLE_S = 9 * 86_400.0  # queues open daily, and gangs age within days
_NODE_LOST = Verdict(Cause.NODE_LOST, 1.0, "its node had a fault", "relaunch")

OnProgress = Callable[[int, int, float], None]
"""Is told how many gangs are over, how many there are, and how many seconds of the trace have passed."""


class NoRest(RuntimeError):
    """The scheduler starts and stops gangs in circles."""


@dataclass(slots=True)
class Replayed:
    """What came of it; the gangs in the order of their submission, those that never ended included."""

    gangs: list[SimGang]
    moments: list[Moment] = field(default_factory=list)
    decisions: int = 0
    faults_met: int = 0
    never_started: dict[str, str] = field(default_factory=dict)  # job id -> why it waits


class Replay:
    """One run over a trace; `run` once."""

    def __init__(
        self,
        jobs: Sequence[Job],
        cluster: Cluster,
        settings: ReplaySettings,
        decider: Decider,
        faults: Sequence[Fault] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        """Set the scene; `jobs` in order of submission, and none that could never fit."""
        self._jobs = jobs
        self._cluster = cluster
        self._settings = settings
        self._decider = decider
        self._on_progress = on_progress
        self._zero_s = settings.starts_at.timestamp()
        every = settings.checkpoint_every
        self._every_s = None if every is None else every.total_seconds()
        self._events = EventQueue()
        self._idle_since_s = 0.0
        self._nodes = {node.node: node for node in cluster.nodes}
        self._fault_counts = dict.fromkeys(self._nodes, 0)
        self._occupancy = Occupancy(cluster.nodes)
        self._usage = UsageHistory(cluster.queues, cluster.gpus, settings.policy, self._zero_s)
        self._waiting: set[SimGang] = set()
        self._running: dict[SimGang, None] = {}
        self._waiting_gpus = 0
        self._over = 0
        self._has_windows = any(queue.windows for queue in cluster.queues)
        self._result = Replayed([])
        for job in jobs:
            self._events.push(self._zero_s + job.submit_s, Event.SUBMIT, job)
        for fault in faults:
            self._events.push(self._zero_s + fault.start_s, Event.FAULT_BEGINS, fault.node)
            self._events.push(self._zero_s + fault.end_s, Event.FAULT_ENDS, fault.node)

    def run(self) -> Replayed:
        """Until every gang is over, or nothing more can happen."""
        if self._has_windows:
            self._look_each_hour()
        while self._events and self._over < len(self._jobs):
            now_s = self._events.next_s
            is_due = self._happen(now_s)
            if is_due and (self._waiting or self._has_windows):
                self._decide(now_s)
            self._note(now_s)
            if self._is_stuck(now_s):
                break
        self._result.never_started = {gang.job.job_id: self._decider.why_waits(gang) for gang in self._waiting}
        return self._result

    # --- events

    def _happen(self, now_s: float) -> bool:
        """Let everything of this instant happen; True if decisions may differ for it."""
        changed = False
        has_faults = False
        for event, subject in self._events.pop_at(now_s):
            match event:
                case Event.SUBMIT:
                    assert isinstance(subject, Job)
                    self._submit(subject, now_s)
                    changed = True
                case Event.END:
                    gang, attempt = _attempt(subject)
                    if gang.placement is not None and gang.attempt == attempt:
                        self._end(gang, now_s)
                        changed = True
                case Event.FAULT_BEGINS | Event.FAULT_ENDS:
                    assert isinstance(subject, str)
                    has_faults |= self._change_node(subject, 1 if event is Event.FAULT_BEGINS else -1, now_s)
                case Event.LOOK:
                    changed |= self._look(subject, now_s)
        if has_faults:
            self._decider.nodes_changed(tuple(self._nodes.values()), now_s)
        return changed or has_faults

    def _submit(self, job: Job, now_s: float) -> None:
        known = self._settings.durations_are_known
        number = len(self._result.gangs)
        request = request_of(job, number, self._cluster, durations_are_known=known, checkpoint_every_s=self._every_s)
        gang = SimGang(job, request, now_s, waits_since_s=now_s)
        self._result.gangs.append(gang)
        self._wait(gang, now_s)
        self._decider.gang_waits(gang, now_s)

    def _end(self, gang: SimGang, now_s: float) -> None:
        self._leave(gang, now_s)
        gang.finish(now_s)
        self._decider.gang_ended(gang, now_s)
        self._over += 1
        if self._on_progress is not None:
            self._on_progress(self._over, len(self._jobs), now_s - self._zero_s)

    def _change_node(self, name: str, sign: int, now_s: float) -> bool:
        before = self._fault_counts[name]
        self._fault_counts[name] += sign
        if bool(before) == bool(self._fault_counts[name]):
            return False
        node = self._cluster.nodes[list(self._nodes).index(name)]
        if sign < 0:
            self._nodes[name] = node
            self._occupancy.mend(name)
            return True
        self._nodes[name] = replace(node, state=NodeState.FAULTY)
        for gang in [gang for gang in self._running if gang.placement and name in gang.placement.nodes]:
            self._leave(gang, now_s)
            gang.lose_node(now_s, self._every_s)
            self._result.faults_met += 1
            gang.not_before_s = instant(now_s + _back_off(gang, now_s).total_seconds())
            self._events.push(gang.not_before_s, Event.LOOK, None)
            self._wait(gang, now_s)
            self._decider.gang_left(gang, now_s)
        self._occupancy.fail(name)
        return True

    def _look(self, subject: object, now_s: float) -> bool:
        if subject is _HOURLY:
            self._look_each_hour(now_s)
            return True
        if subject is None:
            return True
        gang, attempt = _attempt(subject)
        if gang.attempt != attempt or gang.ended_s is not None:
            return False
        if gang.placement is not None and self._settings.policy.order is Order.LAS:
            self._look_at_class(gang, now_s)
        return True

    # --- decisions

    def _decide(self, now_s: float) -> None:
        for _ in range(MOST_ROUNDS):
            decided = self._decider.decide(now_s, self._usage.until(now_s))
            self._result.decisions += 1
            if not decided:
                return
            self._apply(decided, now_s)
            if not self._waiting:
                return
        raise NoRest(
            f"the scheduler started and stopped gangs {MOST_ROUNDS} times at second {now_s - self._zero_s:g} of the "
            "trace without coming to rest; this is an error in it. Report it with the trace"
        )

    def _apply(self, decided: Decided, now_s: float) -> None:
        for gang, placement in decided.begun:
            self._begin(gang, placement, now_s)
        for gang in decided.stopped:
            self._leave(gang, now_s)
            gang.stop(now_s)
            self._wait(gang, now_s)
            self._decider.gang_left(gang, now_s)

    def _begin(self, gang: SimGang, placement: Placement, now_s: float) -> None:
        self._waiting.remove(gang)
        self._waiting_gpus -= gang.job.gpus
        overhead_s = self._settings.restart_cost.of(gang.job.gpus) if gang.attempt else 0.0
        compute = min(self._nodes[name].compute for name in placement.nodes)
        gang.begin(now_s, placement, overhead_s, compute)
        self._occupancy.take(gang.request, placement)
        self._usage.change((gang,), 1, now_s)
        self._running[gang] = None
        self._decider.gang_began(gang, now_s)
        self._events.push(gang.end_s(), Event.END, (gang, gang.attempt))
        policy = self._settings.policy
        if policy.preempts_by_order or self._cluster.queues:
            spared_s = policy.min_run.total_seconds() * 2 ** min(gang.preemptions, 16)  # then it may be stopped again
            self._events.push(now_s + overhead_s + spared_s, Event.LOOK, (gang, gang.attempt))
        if policy.order is Order.LAS:
            self._look_at_class(gang, now_s)

    def _wait(self, gang: SimGang, now_s: float) -> None:
        self._waiting.add(gang)
        self._waiting_gpus += gang.job.gpus
        after_s = self._settings.policy.ages_after_s
        if after_s < inf:
            ages_s = instant(now_s + after_s - gang.waited_s)
            if ages_s > now_s:
                self._events.push(ages_s, Event.LOOK, (gang, gang.attempt))

    def _leave(self, gang: SimGang, now_s: float) -> None:
        assert gang.placement is not None
        self._occupancy.give(gang.request, gang.placement)
        self._usage.change((gang,), -1, now_s)
        del self._running[gang]

    # --- when to look again though nothing happens

    def _look_at_class(self, gang: SimGang, now_s: float) -> None:
        """At the time at which it will fall into the next class of attained service, if it still runs then."""
        policy = self._settings.policy
        attained_s = (gang.spent_s + gang.ran_s(now_s)) * gang.job.gpus
        bound_s = policy.las_first.total_seconds()
        while bound_s <= attained_s and bound_s > 0 and policy.las_factor > 1:
            bound_s *= policy.las_factor
        if bound_s > attained_s:
            begins_s = max(now_s, gang.began_s + gang.overhead_s)
            self._events.push(begins_s + (bound_s - attained_s) / gang.job.gpus, Event.LOOK, (gang, gang.attempt))

    def _look_each_hour(self, now_s: float | None = None) -> None:
        """Queues open and close at hours of the day."""
        start_s = self._events.next_s if now_s is None else now_s
        self._events.push((start_s // 3600 + 1) * 3600, Event.LOOK, _HOURLY)

    def _is_stuck(self, now_s: float) -> bool:
        """True if nothing runs, nothing is to come but looks, and those have found nothing for as long as they may."""
        if self._running or not self._events.is_only_looks:
            self._idle_since_s = now_s
            return False
        return now_s - self._idle_since_s > _LONGEST_IDLE_S

    def _note(self, now_s: float) -> None:
        occupancy, moments = self._occupancy, self._result.moments
        moment = Moment(
            instant(now_s - self._zero_s),
            occupancy.held_gpus,
            occupancy.usable_gpus,
            occupancy.stranded_gpus,
            len(self._waiting),
            self._waiting_gpus,
        )
        if not moments or moments[-1].stands != moment.stands:
            moments.append(moment)


_HOURLY = object()


def _attempt(subject: object) -> tuple[SimGang, int]:
    assert isinstance(subject, tuple)
    gang, attempt = subject
    return gang, attempt


def _back_off(gang: SimGang, now_s: float) -> timedelta:
    """How long a gang keeps still after a fault: as its ledger would be told."""
    view = GangView(
        gang.request,
        SUBMISSION,
        gang.attempt,
        GangState.RUNNING,
        at(gang.submitted_s),
        at(now_s),
        verdict=_NODE_LOST,
        infrastructure_ends=gang.faults,
    )
    action = after_end(view)
    assert isinstance(action, Requeue)
    return action.back_off
