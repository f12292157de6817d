"""What becomes of a request whose gang may already be known: attach, resume, submit anew, or take a result over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gang_scheduler.gang_state import ENDED, GangState


class How(StrEnum):
    """What `submit` did with a request."""

    NEW = "new"  # first submission of this gang id
    ATTACHED = "attached"  # the submission is alive (or ended and nobody asked again): the caller only watches it
    RESUMED = "resumed"  # cleared while alive: same submission, current attempt stops with a checkpoint, then goes on
    RESUBMITTED = "resubmitted"  # cleared after an end, or other digest: a new submission
    ALREADY_DONE = "already done"  # an equal RunSpec has succeeded before, here or in another gang


@dataclass(frozen=True, slots=True)
class Claim:
    """Who asks for a gang: decides between attaching, resuming and resubmitting.

    `owner` identifies the Airflow task instance and its try (its UUID); releases by anyone else are ignored.
    `generation` changes when a person clears the task but not when Airflow retries it (the task instance's
    `max_tries` does exactly that). `asked_with` identifies the execution of the upstream work, so that a run
    cleared as a whole can be told from this one task cleared by itself; empty = not told apart.
    """

    owner: str
    generation: int
    asked_with: str = ""
    may_reuse: bool = True


@dataclass(frozen=True, slots=True)
class Existing:
    """The newest submission of the gang; `holds_attempt` is true if an attempt of it may be running.

    `resumable_submission` is the newest submission of the gang with the same digest as this one that has committed a
    checkpoint, and `resumable_step` that checkpoint's step.
    """

    submission: int
    state: GangState
    run_spec_digest: str
    generation: int
    asked_with: str = ""
    holds_attempt: bool = False
    resumable_submission: int | None = None
    resumable_step: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A submission, of any gang, that has succeeded with the digest asked for."""

    gang_id: str
    submission: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What the ledger is to write; `submission` is the one that answers the request from now on.

    `stops_attempt`: the running attempt of the existing submission stops with a checkpoint, then goes on.
    `releases_existing`: the existing submission stops for good. `resume_from` names a submission of the same gang.
    `takes_claim`: the asker becomes the owner.
    """

    how: How
    submission: int
    sentence: str
    stops_attempt: bool = False
    releases_existing: bool = False
    resume_from: int | None = None
    takes_claim: bool = True


def decide_submission(
    existing: Existing | None, run_spec_digest: str, claim: Claim, done_elsewhere: Done | None
) -> Decision:
    """Decide by the gang's newest submission, by who asks again, and by what has been done before.

    "Already done" rests on the digest alone, never on ids or dates; `done_elsewhere` may be this gang's own success.
    """
    if existing is None:
        return _already_done(1, claim, done_elsewhere) or Decision(How.NEW, 1, "submission 1 is new")
    if claim.generation < existing.generation:
        return Decision(
            How.ATTACHED,
            existing.submission,
            f"submission {existing.submission} ({existing.state}) belongs to a later clear of this task; "
            "only watching it",
            takes_claim=False,
        )
    is_same_work = existing.run_spec_digest == run_spec_digest
    if existing.state not in ENDED:
        return _while_alive(existing, claim, is_same_work, done_elsewhere)
    if not is_same_work:
        return _anew_from_scratch(existing, claim, done_elsewhere, "the RunSpec's digest has changed")
    if existing.state is GangState.INTERRUPTED:
        return Decision(
            How.RESUMED,
            existing.submission,
            f"submission {existing.submission} had been interrupted; it goes on {_from_step(existing)}",
        )
    if claim.generation == existing.generation:
        return Decision(
            How.ATTACHED,
            existing.submission,
            f"submission {existing.submission} has {existing.state} already and nobody cleared the task since",
        )
    if existing.state is GangState.SUCCEEDED:
        return _after_success(existing, claim, done_elsewhere)
    return _after_failure(existing, claim, done_elsewhere)


def _while_alive(existing: Existing, claim: Claim, is_same_work: bool, done: Done | None) -> Decision:
    number = existing.submission
    if not is_same_work:
        reason = f"the RunSpec's digest has changed while submission {number} was {existing.state}; that one is stopped"
        return _anew_from_scratch(existing, claim, done, reason, releases_existing=True)
    if claim.generation == existing.generation:
        return Decision(How.ATTACHED, number, f"submission {number} is {existing.state}; watching it")
    if not existing.holds_attempt:
        return Decision(How.RESUMED, number, f"cleared while submission {number} was {existing.state}; it goes on")
    return Decision(
        How.RESUMED,
        number,
        f"cleared while submission {number} was {existing.state}; its attempt stops with a checkpoint, "
        "the next goes on",
        stops_attempt=True,
    )


def _after_success(existing: Existing, claim: Claim, done: Done | None) -> Decision:
    was_asked_as_a_whole = bool(claim.asked_with and existing.asked_with) and claim.asked_with != existing.asked_with
    if was_asked_as_a_whole and (reused := _already_done(existing.submission + 1, claim, done)):
        return reused
    return Decision(
        How.RESUBMITTED,
        existing.submission + 1,
        f"cleared after submission {existing.submission} had succeeded; "
        f"submission {existing.submission + 1} starts from scratch",
    )


def _after_failure(existing: Existing, claim: Claim, done: Done | None) -> Decision:
    number = existing.submission + 1
    if reused := _already_done(number, claim, done):
        return reused
    return Decision(
        How.RESUBMITTED,
        number,
        f"cleared after submission {existing.submission} had failed; the RunSpec's digest is equal, so submission "
        f"{number} starts {_from_step(existing)}",
        resume_from=existing.resumable_submission,
    )


def _anew_from_scratch(
    existing: Existing, claim: Claim, done: Done | None, reason: str, *, releases_existing: bool = False
) -> Decision:
    number = existing.submission + 1
    if reused := _already_done(number, claim, done, releases_existing=releases_existing):
        return reused
    return Decision(
        How.RESUBMITTED,
        number,
        f"{reason}; submission {number} starts from scratch",
        releases_existing=releases_existing,
    )


def _already_done(number: int, claim: Claim, done: Done | None, *, releases_existing: bool = False) -> Decision | None:
    if done is None or not claim.may_reuse:
        return None
    return Decision(
        How.ALREADY_DONE,
        number,
        f"an equal RunSpec has succeeded before (gang '{done.gang_id}' submission {done.submission}); "
        "its result is taken, nothing is launched",
        releases_existing=releases_existing,
    )


def _from_step(existing: Existing) -> str:
    if existing.resumable_submission is None:
        return "from scratch: no checkpoint of it was ever committed"
    return f"from the checkpoint of step {existing.resumable_step} (submission {existing.resumable_submission})"
