"""A plan as a table test reads it: who goes where, who stops why, who waits why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from gang_scheduler.actions import Action, Admit, AskStop, StopReason, Wait, WaitReason
from gang_scheduler.gang_state import GangState
from gang_scheduler.plan import plan
from gang_scheduler.snapshot import GangView, Snapshot


@dataclass(frozen=True)
class Planned:
    """Gang ids and what is planned for them."""

    actions: tuple[Action, ...]

    @property
    def admitted(self) -> list[str]:
        return [action.key.gang_id for action in self.actions if isinstance(action, Admit)]

    @property
    def stops(self) -> dict[str, StopReason]:
        return {action.key.gang_id: action.reason for action in self.actions if isinstance(action, AskStop)}

    @property
    def waits(self) -> dict[str, WaitReason]:
        return {action.key.gang_id: action.reason for action in self.actions if isinstance(action, Wait)}

    def grant(self, gang_id: str) -> Admit:
        return next(act for act in self.actions if isinstance(act, Admit) and act.key.gang_id == gang_id)

    def pool(self, gang_id: str) -> str:
        return self.grant(gang_id).placement.pool

    def nodes(self, gang_id: str) -> dict[str, int]:
        """Workers by node, in rank order."""
        counts: dict[str, int] = {}
        for placed in self.grant(gang_id).placement.workers:
            counts[placed.node] = counts.get(placed.node, 0) + placed.workers
        return counts

    def sentence(self, gang_id: str) -> str:
        return next(
            act.sentence for act in self.actions if isinstance(act, Wait | AskStop) and act.key.gang_id == gang_id
        )


def planned(snapshot: Snapshot) -> Planned:
    """Plan it."""
    return Planned(plan(snapshot))


def carried_out(snapshot: Snapshot, actions: Sequence[Action], after: timedelta) -> Snapshot:
    """The ledger once the plan was carried out: stops have come to their end, admitted gangs run for `after`."""
    acts = {action.key.gang_id: action for action in actions}
    return replace(
        snapshot,
        now=snapshot.now + after,
        gangs=tuple(_after(view, acts.get(view.request.gang_id), snapshot) for view in snapshot.gangs),
    )


def _after(view: GangView, action: Action | None, snapshot: Snapshot) -> GangView:
    if isinstance(action, Admit):
        return replace(
            view,
            state=GangState.RUNNING,
            attempt=action.key.attempt,
            placement=action.placement,
            state_since=snapshot.now,
            queued_spent=view.queued_spent + (snapshot.now - view.state_since),
            lease_expires_at=None,
        )
    if isinstance(action, AskStop):
        return replace(
            view,
            state=GangState.QUEUED,
            placement=None,
            state_since=snapshot.now,
            running_spent=view.running_spent + (snapshot.now - view.state_since),
        )
    if isinstance(action, Wait):
        return replace(view, wait_reason=action.reason.value, wait_sentence=action.sentence)
    return view if view.lease_expires_at is None else replace(view, lease_expires_at=None)
