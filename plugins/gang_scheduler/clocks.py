"""The four clocks of a submission: how long each has run, and whether its limit is reached."""

from __future__ import annotations

from datetime import datetime, timedelta

from gang_scheduler.gang_state import CLOCK_OF, ENDED, Clock, GangState
from gang_scheduler.snapshot import GangView
from gang_scheduler.verdict import Cause, Verdict

# What a limit is called where people set it: on the request, and on a gang operator.
_SET_BY = {
    Clock.QUEUED: "limits.queued of the request, queue_limit on a gang operator",
    Clock.STARTING: "limits.starting of the request, start_limit on a gang operator",
    Clock.RUNNING: "limits.running of the request, run_limit on a gang operator",
    Clock.RECOVERING: "limits.recovering of the request, recovery_limit on a gang operator",
}
_WHAT = {
    Clock.QUEUED: "waited in the queue",
    Clock.STARTING: "has been starting",
    Clock.RUNNING: "ran",
    Clock.RECOVERING: "has been recovering, between attempts and out of contact,",
}
_ADVICE = {
    Clock.QUEUED: "Ask for fewer workers, raise its priority or the limit",
    Clock.STARTING: "See agent.log and the rank logs in the launch folder, or raise the limit",
    Clock.RUNNING: "Raise the limit, or train for fewer steps; the last checkpoint stays",
    Clock.RECOVERING: "Look at the node that its attempts ran on, or raise the limit",
}


def spent(view: GangView, clock: Clock, now: datetime) -> timedelta:
    """How long that clock has run by `now`; starting counts for the present attempt only."""
    is_running = CLOCK_OF[view.state] is clock
    if clock is Clock.STARTING:
        return max(now - (view.admitted_at or now), timedelta()) if is_running else timedelta()
    before = {
        Clock.QUEUED: view.queued_spent,
        Clock.RUNNING: view.running_spent,
        Clock.RECOVERING: view.recovering_spent,
    }[clock]
    return before + (max(now - view.state_since, timedelta()) if is_running else timedelta())


def limit_at(view: GangView, now: datetime) -> datetime | None:
    """When the limit on the clock that runs now will be reached; None if it has none."""
    limit = _limit(view)
    return None if limit is None else now + (limit - spent(view, CLOCK_OF[view.state], now))


def _limit(view: GangView) -> timedelta | None:
    limits = view.request.limits
    return {
        Clock.QUEUED: limits.queued,
        Clock.STARTING: limits.starting,
        Clock.RUNNING: limits.running,
        Clock.RECOVERING: limits.recovering,
    }[CLOCK_OF[view.state]]


def advance(
    spent_before: dict[Clock, timedelta], state: GangState, since: datetime, until: datetime
) -> dict[Clock, timedelta]:
    """The clocks after having been in `state` from `since` to `until`; a state that has ended runs none."""
    if state in ENDED:
        return spent_before
    clock = CLOCK_OF[state]
    return {**spent_before, clock: spent_before[clock] + max(until - since, timedelta())}


def limit_reached(view: GangView, now: datetime) -> Verdict | None:
    """The verdict of the limit on the clock that runs now, if it is reached; a stopping attempt has its grace."""
    if view.state is GangState.STOPPING:
        return None
    clock, limit = CLOCK_OF[view.state], _limit(view)
    if limit is None or spent(view, clock, now) < limit:
        return None
    what = f"attempt {view.attempt}" if clock is Clock.STARTING else f"gang '{view.request.gang_id}'"
    sentence = f"{what} {_WHAT[clock]} for as long as it may: {limit} ({_SET_BY[clock]}). {_ADVICE[clock]}"
    return Verdict(Cause.LIMIT_REACHED, 1.0, sentence, "fail", details={"clock": clock.value, "limit": str(limit)})
