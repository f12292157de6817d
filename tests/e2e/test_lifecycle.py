"""What people do to a gang's task in the UI, and what becomes of the gang."""

from __future__ import annotations

import re
from typing import Any

import pytest
from airflow_api import wait_for
from gang_runs import DAG_ID, GangRun, value_after

from gang_scheduler.gang_state import GangState

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
STEPS = 80


def test_the_submission_resumes_when_its_task_is_cleared_while_it_runs(stack: Any) -> None:
    run = GangRun.start(stack.api, stack.home, steps=STEPS)
    run.wait_step(25)
    run.api.clear(DAG_ID, run.run_id, ["train"])
    run.wait()

    record = run.record()
    assert record is not None
    assert (record.submission, record.attempt) == (1, 2)
    assert run.result()["value"] == value_after(STEPS)
    run.assert_never_two_alive()
    run.assert_nothing_is_left()


@pytest.mark.slow
def test_a_new_submission_resumes_when_a_failed_task_is_cleared(stack: Any) -> None:
    run = GangRun.start(stack.api, stack.home, steps=STEPS, fail_at=35)
    run.wait(expect="failed")
    assert run.task()["try_number"] == 1
    assert "the program was told to fail at step 35" in run.log()

    run.api.clear(DAG_ID, run.run_id, ["train"])
    wait_for(lambda: (record := run.record()) and record.submission == 2, "a second submission", 90)
    run.wait(expect="failed")
    resumed = re.search(r"resumed from step (\d+)", run.log(try_number=2))
    assert resumed is not None
    assert int(resumed[1]) >= 30
    run.assert_never_two_alive()
    run.assert_nothing_is_left()


@pytest.mark.slow
def test_a_new_submission_starts_from_scratch_when_a_successful_task_is_cleared(stack: Any) -> None:
    run = GangRun.start(stack.api, stack.home, steps=30)
    run.wait()
    run.api.clear(DAG_ID, run.run_id, ["train"])
    wait_for(lambda: (record := run.record()) and record.submission == 2, "a second submission", 90)
    run.wait()

    assert run.result(submission=2) == {"steps": 30, "value": value_after(30), "attempt": 1}
    assert "resumed from step" not in run.log(try_number=2)
    run.assert_never_two_alive()
    run.assert_nothing_is_left()


def test_nothing_is_left_alive_when_a_running_task_is_marked_failed(stack: Any) -> None:
    run = GangRun.start(stack.api, stack.home, steps=600)
    run.wait_step(15)
    run.api.mark(DAG_ID, run.run_id, "train", "failed")

    run.assert_nothing_is_left(within_s=60)
    wait_for(lambda: (r := run.record()) and r.state is GangState.INTERRUPTED, "the gang rests", 30)
    run.assert_never_two_alive()


@pytest.mark.slow
def test_one_gang_waits_whole_with_a_reason_when_two_ask_for_all_slots(stack: Any) -> None:
    first = GangRun.start(stack.api, stack.home, steps=STEPS)
    second = GangRun.start(stack.api, stack.home, steps=STEPS)
    waiting = wait_for(
        lambda: next((r for run in (first, second) if (r := run.record()) and r.wait_sentence), None),
        "one of the two waits",
        120,
    )
    assert waiting.attempt == 0
    assert "local" in waiting.wait_sentence
    first.wait()
    second.wait()
    for run in (first, second):
        assert run.result()["value"] == value_after(STEPS)
        run.assert_never_two_alive()
    first.assert_nothing_is_left()
