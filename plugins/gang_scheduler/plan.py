"""The one entry point of the core: what happens next to every gang, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import attrgetter

from gang_scheduler.actions import Action, AskStop, Finish, Lapse, MarkUnknown, StopReason
from gang_scheduler.admission import admit
from gang_scheduler.clocks import limit_at, limit_reached
from gang_scheduler.gang_state import GangState
from gang_scheduler.recovery import after_end, never_started, without_attempt
from gang_scheduler.snapshot import GangView, NodeView, Snapshot

_NONE: Mapping[tuple[str, str], NodeView] = {}
_NEVER = datetime.max.replace(tzinfo=UTC)
_WITH_LEASE = frozenset({GangState.STARTING, GangState.RUNNING, GangState.STOPPING})


def plan(snapshot: Snapshot) -> tuple[Action, ...]:
    """Decide, for each gang at most one act; the order in which the snapshot lists gangs and nodes means nothing.

    What an act of this plan sets free is given to others by the next plan, when it is known to be free.
    """
    left = {(node.pool, node.node): node for node in snapshot.nodes if node.is_to_be_left}
    not_quiet = [view for view in snapshot.gangs if left or not _is_quiet(view, snapshot.now)]
    fates = [_fate(view, snapshot, left) for view in sorted(not_quiet, key=attrgetter("key"))]
    decided = {action.key for action in fates if action is not None}
    waiting = [view for view in snapshot.gangs if not view.holds_capacity and view.key not in decided]
    return tuple(action for action in fates if action is not None) + admit(waiting, snapshot, decided)


def _is_quiet(view: GangView, now: datetime) -> bool:
    """True if an earlier plan found that nothing happens to the gang before a later moment than this."""
    span = view.kept.get(fate)
    return span is not None and span[0] <= now < span[1]


def _fate(view: GangView, snapshot: Snapshot, left: Mapping[tuple[str, str], NodeView]) -> Action | None:
    """`fate`; if it is none, the view keeps until when: what depends on the clock, does so by these moments alone."""
    action = fate(view, snapshot, left)
    if action is None:
        moments = (view.start_by, view.lease_expires_at, view.stop_deadline, limit_at(view, snapshot.now))
        ends = min((moment for moment in moments if moment and moment > snapshot.now), default=_NEVER)
        view.kept[fate] = snapshot.now, ends
    return action


def fate(view: GangView, snapshot: Snapshot, left: Mapping[tuple[str, str], NodeView] = _NONE) -> Action | None:
    """What must happen to this gang whatever the others do; None if it may go on, or wait for admission.

    The first that applies: its attempt has ended, nobody wants it, it never started, it is out of contact, it has
    reached a limit, somebody asked it to stop, one of its nodes is to be left (`left`, by pool and name).
    """
    if view.verdict is not None:
        return after_end(view)
    if not view.holds_capacity:
        return without_attempt(view) or _limit(view, snapshot)
    if view.state is GangState.ADMITTED:
        return never_started(view) or _lapse(view, snapshot) or _limit(view, snapshot)
    return _lease(view, snapshot) or _limit(view, snapshot) or _stop(view, snapshot) or _leave(view, left)


def _lapse(view: GangView, snapshot: Snapshot) -> Lapse | None:
    if view.start_by is None or view.start_by > snapshot.now:
        return None
    return Lapse(
        view.key,
        f"no supervisor confirmed attempt {view.attempt} by {view.start_by:%H:%M:%S} UTC; its slots are free again",
    )


def _lease(view: GangView, snapshot: Snapshot) -> MarkUnknown | None:
    is_expired = view.lease_expires_at is not None and view.lease_expires_at <= snapshot.now
    if view.state not in _WITH_LEASE or not is_expired:
        return None
    return MarkUnknown(
        view.key,
        f"the supervisor of attempt {view.attempt} has not renewed its lease, which ran out at "
        f"{view.lease_expires_at:%H:%M:%S} UTC; its slots stay held until its death is proven",
    )


def _limit(view: GangView, snapshot: Snapshot) -> Finish | AskStop | None:
    """A reached limit stops what runs, and fails at once what doesn't.

    An attempt that is out of contact is asked first as well; when that, too, has brought no answer within the grace
    period, the limit that the author set is what frees its slots.
    """
    if view.limit_verdict is not None:
        is_over = view.stop_deadline is not None and view.stop_deadline <= snapshot.now
        if view.state is GangState.UNKNOWN and is_over:
            sentence = f"{view.limit_verdict.sentence}; its death was never proven"
            return Finish(view.key, GangState.FAILED, view.limit_verdict, sentence)
        return None
    verdict = limit_reached(view, snapshot.now)
    if verdict is None:
        return None
    if view.holds_capacity and view.state is not GangState.ADMITTED:
        return AskStop(view.key, verdict.sentence, verdict, StopReason.LIMIT)
    return Finish(view.key, GangState.FAILED, verdict, verdict.sentence)


def _stop(view: GangView, snapshot: Snapshot) -> AskStop | None:
    if view.state in (GangState.STARTING, GangState.RUNNING) and view.stop_is_requested:
        return AskStop(view.key, f"asked to stop with a checkpoint: {view.stop_why or 'no reason was given'}")
    is_late = view.stop_deadline is not None and view.stop_deadline <= snapshot.now
    if view.state is GangState.STOPPING and is_late:
        sentence = f"attempt {view.attempt} has not ended within its grace period; asked again"
        return AskStop(view.key, sentence, reason=StopReason.LATE)
    return None


def _leave(view: GangView, left: Mapping[tuple[str, str], NodeView]) -> AskStop | None:
    """Nobody stays on a node that is drained or faulty: the gang stops with a checkpoint and is queued again."""
    if not left or view.placement is None or view.state not in (GangState.STARTING, GangState.RUNNING):
        return None
    for name in view.placement.nodes:
        node = left.get((view.placement.pool, name))
        if node is not None:
            why = node.cordon_reason or "no reason was given"
            sentence = f"asked to stop with a checkpoint and go on elsewhere: node '{name}' is {node.state} ({why})"
            return AskStop(view.key, sentence, reason=StopReason.NODE)
    return None
