from __future__ import annotations

from typing import Any

import pytest

from gang_scheduler.gang_state import GangState
from gang_scheduler.submission_rules import Claim, Decision, Done, Existing, How, decide_submission

SAME, OTHER = "digest", "other digest"
ELSEWHERE = Done("other/run/train", 2)


def existing(state: GangState, **fields: Any) -> Existing:
    given: dict[str, Any] = {
        "submission": 3,
        "state": state,
        "run_spec_digest": SAME,
        "generation": 1,
        "asked_with": "up-1",
    }
    return Existing(**(given | fields))


def retry(**fields: Any) -> Claim:
    """Airflow asks again; nobody cleared anything."""
    given: dict[str, Any] = {"owner": "try-2", "generation": 1, "asked_with": "up-1"}
    return Claim(**(given | fields))


def cleared(**fields: Any) -> Claim:
    """A person cleared this task alone."""
    return retry(**({"generation": 2} | fields))


def cleared_whole(**fields: Any) -> Claim:
    """A person cleared the whole run: the upstream work was asked for again as well."""
    return cleared(asked_with="up-2", **fields)


ALIVE = [state for state in GangState if state.value not in ("interrupted", "succeeded", "failed")]
RUNNING = existing(GangState.RUNNING, holds_attempt=True)
SUCCEEDED = existing(GangState.SUCCEEDED)
FAILED = existing(GangState.FAILED, resumable_submission=2, resumable_step=50)
INTERRUPTED = existing(GangState.INTERRUPTED, resumable_submission=3, resumable_step=40)


@pytest.mark.parametrize(
    ("before", "digest", "claim", "done", "how", "submission"),
    [
        pytest.param(None, SAME, retry(), None, How.NEW, 1, id="never asked"),
        pytest.param(None, SAME, retry(), ELSEWHERE, How.ALREADY_DONE, 1, id="never asked, done elsewhere"),
        pytest.param(None, SAME, retry(may_reuse=False), ELSEWHERE, How.NEW, 1, id="never asked, must not re-use"),
        pytest.param(RUNNING, SAME, retry(), None, How.ATTACHED, 3, id="alive, retried"),
        pytest.param(RUNNING, SAME, cleared(), None, How.RESUMED, 3, id="alive, cleared"),
        pytest.param(RUNNING, OTHER, retry(), None, How.RESUBMITTED, 4, id="alive, other digest"),
        pytest.param(RUNNING, OTHER, cleared(), None, How.RESUBMITTED, 4, id="alive, cleared, other digest"),
        pytest.param(
            RUNNING, OTHER, cleared(), ELSEWHERE, How.ALREADY_DONE, 4, id="alive, other digest, done elsewhere"
        ),
        pytest.param(INTERRUPTED, SAME, retry(), None, How.RESUMED, 3, id="interrupted, retried"),
        pytest.param(INTERRUPTED, SAME, cleared(), None, How.RESUMED, 3, id="interrupted, cleared"),
        pytest.param(INTERRUPTED, OTHER, cleared(), None, How.RESUBMITTED, 4, id="interrupted, other digest"),
        pytest.param(SUCCEEDED, SAME, retry(), ELSEWHERE, How.ATTACHED, 3, id="succeeded, retried"),
        pytest.param(SUCCEEDED, SAME, cleared(), ELSEWHERE, How.RESUBMITTED, 4, id="succeeded, this task cleared"),
        pytest.param(
            SUCCEEDED, SAME, cleared_whole(), ELSEWHERE, How.ALREADY_DONE, 4, id="succeeded, whole run cleared"
        ),
        pytest.param(
            SUCCEEDED,
            SAME,
            cleared_whole(may_reuse=False),
            ELSEWHERE,
            How.RESUBMITTED,
            4,
            id="whole run, must not re-use",
        ),
        pytest.param(
            SUCCEEDED,
            SAME,
            cleared(asked_with=""),
            ELSEWHERE,
            How.RESUBMITTED,
            4,
            id="succeeded, cleared, upstream unknown",
        ),
        pytest.param(SUCCEEDED, OTHER, retry(), None, How.RESUBMITTED, 4, id="succeeded, other digest"),
        pytest.param(
            SUCCEEDED, OTHER, cleared_whole(), ELSEWHERE, How.ALREADY_DONE, 4, id="other digest, done elsewhere"
        ),
        pytest.param(FAILED, SAME, retry(), None, How.ATTACHED, 3, id="failed, retried"),
        pytest.param(FAILED, SAME, cleared(), None, How.RESUBMITTED, 4, id="failed, cleared"),
        pytest.param(FAILED, SAME, cleared(), ELSEWHERE, How.ALREADY_DONE, 4, id="failed, cleared, done elsewhere"),
        pytest.param(FAILED, OTHER, cleared(), None, How.RESUBMITTED, 4, id="failed, other digest"),
    ],
)
def test_request_is_answered_so(
    before: Existing | None, digest: str, claim: Claim, done: Done | None, how: How, submission: int
) -> None:
    decision = decide_submission(before, digest, claim, done)
    assert (decision.how, decision.submission) == (how, submission)
    assert decision.takes_claim


@pytest.mark.parametrize("state", ALIVE)
def test_retry_attaches_in_every_state_of_a_live_gang(state: GangState) -> None:
    assert decide_submission(existing(state), SAME, retry(), None).how is How.ATTACHED


def decided(before: Existing, digest: str = SAME, claim: Claim | None = None) -> Decision:
    return decide_submission(before, digest, claim or cleared(), None)


def test_attempt_stops_only_when_there_is_one_to_stop() -> None:
    assert decided(RUNNING).stops_attempt
    assert not decided(existing(GangState.QUEUED)).stops_attempt
    assert not decided(RUNNING, claim=retry()).stops_attempt


def test_old_submission_is_released_only_when_a_live_one_has_a_successor() -> None:
    assert decided(RUNNING, OTHER).releases_existing
    assert not decided(FAILED, OTHER).releases_existing


def test_failed_work_resumes_from_its_newest_checkpoint_only_when_the_digest_is_equal() -> None:
    assert decided(FAILED).resume_from == 2
    assert "from the checkpoint of step 50 (submission 2)" in decided(FAILED).sentence
    assert decided(FAILED, OTHER).resume_from is None
    assert "from scratch" in decided(FAILED, OTHER).sentence
    assert decided(existing(GangState.FAILED)).resume_from is None
    assert "no checkpoint of it was ever committed" in decided(existing(GangState.FAILED)).sentence


def test_claim_of_an_earlier_generation_only_watches() -> None:
    decision = decide_submission(existing(GangState.RUNNING, generation=5), SAME, cleared(), None)
    assert decision.how is How.ATTACHED
    assert not decision.takes_claim
