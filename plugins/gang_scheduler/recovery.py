"""What follows when an attempt is over, or will never be: another attempt, or the submission's end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from gang_scheduler.actions import Action, Finish, Requeue
from gang_scheduler.gang_state import GangState
from gang_scheduler.snapshot import GangView
from gang_scheduler.verdict import Cause, CauseClass, Verdict

FIRST_BACK_OFF = timedelta(seconds=2)
LONGEST_BACK_OFF = timedelta(minutes=5)
AT_ONCE = timedelta()


def back_off(ends: int) -> timedelta:
    """How long to wait after that many infrastructure ends: doubles from two seconds, at most five minutes."""
    return min(FIRST_BACK_OFF * 2 ** min(ends - 1, 16), LONGEST_BACK_OFF) if ends > 0 else AT_ONCE


def after_end(view: GangView) -> Action:
    """Try again, or finish; by the verdict, by who asked for a stop, and by what the budgets still hold."""
    verdict = view.verdict
    assert verdict is not None
    if verdict.cause_class is CauseClass.SUCCESS:
        return Finish(view.key, GangState.SUCCEEDED, verdict, verdict.sentence)
    if view.limit_verdict is not None:
        limit = replace(view.limit_verdict, evidence=(*view.limit_verdict.evidence, verdict.sentence))
        return Finish(view.key, GangState.FAILED, limit, limit.sentence)
    if verdict.cause_class is CauseClass.USER:
        return _after_user_end(view, verdict)
    if view.is_released:
        why = f"; it rests, because it was released: {view.stop_why}" if view.stop_why else "; it rests"
        return Finish(view.key, GangState.INTERRUPTED, verdict, verdict.sentence + why)
    if verdict.cause_class is CauseClass.REQUESTED:
        pause = FIRST_BACK_OFF if verdict.cause is Cause.SUPERSEDED else AT_ONCE
        return Requeue(
            view.key, pause, f"{verdict.sentence}; goes on with attempt {view.attempt + 1}, no budget charged"
        )
    return _after_infrastructure_end(view, verdict)


def _after_user_end(view: GangView, verdict: Verdict) -> Action:
    """Only a program error is worth another try: a bad spec or bad data stays bad."""
    budget = view.request.budgets.user
    if verdict.cause is not Cause.PROGRAM_ERROR or view.is_released:
        return Finish(view.key, GangState.FAILED, verdict, verdict.sentence)
    if view.user_ends <= budget:
        return Requeue(view.key, AT_ONCE, f"{verdict.sentence}; user retry {view.user_ends} of {budget}")
    spent = f"; all {budget} user retries are spent" if budget else ""
    return Finish(view.key, GangState.FAILED, verdict, verdict.sentence + spent)


def _after_infrastructure_end(view: GangView, verdict: Verdict) -> Action:
    ends, budget = view.infrastructure_ends, view.request.budgets.infrastructure
    if ends <= budget:
        pause = back_off(ends)
        return Requeue(
            view.key,
            pause,
            f"{verdict.sentence}; attempt {view.attempt + 1} follows in {pause.total_seconds():g} s "
            f"(infrastructure end {ends} of {budget} that are borne)",
        )
    sentence = (
        f"{verdict.sentence}; that was infrastructure end {ends}, and {budget} are borne (budgets.infrastructure of "
        "the request, infrastructure_budget on a gang operator). Look at the node, then clear the task"
    )
    return Finish(view.key, GangState.FAILED, replace(verdict, sentence=sentence, next_act="fail"), sentence)


def without_attempt(view: GangView) -> Finish | None:
    """A released gang of which nothing runs rests at once."""
    if not view.is_released:
        return None
    sentence = (
        f"released before {'its next' if view.attempt else 'an'} attempt was launched: {view.stop_why or 'no reason'}"
    )
    return Finish(view.key, GangState.INTERRUPTED, Verdict(Cause.INTERRUPTED, 1.0, sentence, "rest"), sentence)


def never_started(view: GangView) -> Action | None:
    """A grant that nobody started yet is void when a stop is asked for: `start` will refuse it from here on."""
    if view.is_released:
        return without_attempt(view)
    if not view.stop_is_requested:
        return None
    return Requeue(view.key, AT_ONCE, f"stopped before it was launched: {view.stop_why or 'no reason was given'}")
