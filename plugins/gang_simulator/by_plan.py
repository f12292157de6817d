"""The reference: each decision is `plan` on a snapshot that is built anew, as a tick of a live scheduler does it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from gang_scheduler.actions import Admit, AskStop, Wait
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeView
from gang_scheduler.plan import plan
from gang_scheduler.snapshot import GangView, Snapshot
from gang_simulator.cluster import Cluster
from gang_simulator.decider import Decided
from gang_simulator.settings import ReplaySettings
from gang_simulator.sim_gang import SUBMISSION, SimGang


class PlanDecider:
    """Keeps the live gangs; the ledger of a replay, as it were."""

    def __init__(self, cluster: Cluster, settings: ReplaySettings) -> None:
        """Nobody has asked for anything."""
        self._cluster = cluster
        self._settings = settings
        every = settings.checkpoint_every
        self._every_s = None if every is None else every.total_seconds()
        self._nodes: Sequence[NodeView] = cluster.nodes
        self._gangs: dict[str, SimGang] = {}
        self._waits: dict[str, str] = {}

    def gang_waits(self, gang: SimGang, now_s: float) -> None:  # noqa: ARG002 - a decider's calls are alike
        self._gangs[gang.request.gang_id] = gang

    def gang_began(self, gang: SimGang, now_s: float) -> None:
        """Nothing: the next snapshot shows it."""

    def gang_left(self, gang: SimGang, now_s: float) -> None:
        """Nothing: the next snapshot shows it."""

    def gang_ended(self, gang: SimGang, now_s: float) -> None:  # noqa: ARG002 - a decider's calls are alike
        del self._gangs[gang.request.gang_id]

    def nodes_changed(self, nodes: Sequence[NodeView], now_s: float) -> None:  # noqa: ARG002 - the same
        self._nodes = nodes

    def decide(self, now_s: float, queues: Sequence[QueueView]) -> Decided:
        """Plan once."""
        decided = Decided()
        for action in plan(self._snapshot(now_s, queues)):
            gang = self._gangs[action.key.gang_id]
            match action:
                case Admit():
                    decided.begun.append((gang, action.placement))
                case AskStop():
                    decided.stopped.append(gang)
                case Wait():
                    self._waits[action.key.gang_id] = action.sentence
                case _:
                    raise AssertionError(f"a replay has no such event: {action}")
        return decided

    def why_waits(self, gang: SimGang) -> str:
        return self._waits.get(gang.request.gang_id, "")

    def _snapshot(self, now_s: float, queues: Sequence[QueueView]) -> Snapshot:
        return Snapshot(
            at(now_s),
            version=0,
            nodes=tuple(self._nodes),
            gangs=tuple(self._view(gang, now_s) for gang in self._gangs.values()),
            pools=self._cluster.pools,
            queues=tuple(queues),
            policy=self._settings.policy,
        )

    def _view(self, gang: SimGang, now_s: float) -> GangView:
        began_s = gang.began_s + gang.overhead_s  # may lie ahead: the plan counts progress from then on
        runs = gang.placement is not None
        saved_s = gang.saved_s(now_s, self._every_s) if runs else None
        return GangView(
            request=gang.request,
            submission=SUBMISSION,
            attempt=gang.attempt,
            state=GangState.RUNNING if runs else GangState.QUEUED,
            submitted_at=at(gang.submitted_s),
            state_since=at(began_s if runs else gang.waits_since_s),
            placement=gang.placement,
            admitted_at=at(gang.began_s) if runs else None,
            not_before=None if gang.not_before_s is None else at(gang.not_before_s),
            queued_spent=timedelta(seconds=gang.queued_s),
            recovering_spent=timedelta(seconds=gang.recovering_s),
            running_spent=timedelta(seconds=gang.spent_s),
            infrastructure_ends=gang.faults,
            saved_at=None if saved_s is None else at(saved_s),
        )


def at(seconds: float) -> datetime:
    """The instant so many seconds after the epoch."""
    return datetime.fromtimestamp(seconds, UTC)
