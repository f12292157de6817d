"""kill -9 of everything that takes part in the real training: losses and weights stay those of an undisturbed run.

All cases are submissions of the same RunSpec, and are held against one run that nothing disturbed.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from airflow_api import wait_for
from gang_runs import GangRun, controller

from training import losses

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]
# 14 March 2013 over the three days before it, long enough for two checkpoints before the kill and steps after it.
ASKED = {"window_days": 3, "epochs": 60, "checkpoint_every_steps": 50}
KILL_AT_STEP = 120
LIMIT_S = 600.0
MUST_EQUAL = ("losses_digest", "model_digest", "final_loss", "steps", "samples")


@pytest.fixture(scope="module")
def undisturbed(stack: Any) -> GangRun:
    """A run of the nightly DAG, ended well: its submission 1 is what the others are held against."""
    stack.switch_on_nightly()
    day = "2013-03-15T00:00:00Z"  # of the run; its interval is the day before
    run = GangRun.start(stack.api, stack.home, "nightly_retraining", logical_date=day, **ASKED)
    run.wait(within_s=LIMIT_S)
    assert run.result()["steps"] > KILL_AT_STEP + 2 * ASKED["checkpoint_every_steps"]
    return run


@pytest.fixture(scope="module")
def held(stack: Any, undisturbed: GangRun) -> GangRun:
    """A run of the same training whose task process can be held; its submission 1 is the other run's result."""
    run = GangRun.start(stack.api, stack.home, "held_training", logical_date="2013-03-14T00:00:00Z", **ASKED)
    run.wait(within_s=LIMIT_S)
    record = run.record()
    assert record is not None
    assert (record.attempt, record.result["model_digest"]) == (0, undisturbed.result()["model_digest"])
    return run


def assert_healed(run: GangRun, submission: int, undisturbed: GangRun, attempts: int, tries: int) -> None:
    """The submission has the undisturbed result, after so many attempts and tries of Airflow's, one at a time."""
    record = run.record()
    assert record is not None
    assert (record.submission, record.attempt) == (submission, attempts)
    assert (record.infrastructure_ends, record.user_ends) == (attempts - 1, 0)
    assert run.task()["try_number"] == tries
    found, expected = run.result(submission), undisturbed.result(1)
    assert {name: found[name] for name in MUST_EQUAL} == {name: expected[name] for name in MUST_EQUAL}
    assert losses_of(run, submission) == losses_of(undisturbed, 1)
    run.assert_never_two_alive()
    started = [row.attempt for row in run.history() if (row.event, row.submission) == ("started", submission)]
    assert started == list(range(1, attempts + 1))
    run.assert_nothing_is_left()


def losses_of(run: GangRun, submission: int) -> list[str]:
    """The page of losses, a line for each step."""
    record = run.record()
    assert record is not None
    return (Path(record.run_dir).parent / f"submission-{submission}" / losses.NAME).read_text().splitlines()


def step_after_a_tick(run: GangRun) -> int:
    """The gang's step; a task that is held doesn't wait for its gang, so nobody else ticks."""
    with controller(run.home) as gangs:
        gangs.tick()
    return run.step()


@pytest.mark.parametrize("role", ["rank", "agent", "supervisor"])
def test_a_killed_part_of_the_gang_changes_neither_losses_nor_weights(undisturbed: GangRun, role: str) -> None:
    tries_before = undisturbed.task()["try_number"]
    submission = undisturbed.train_again()
    undisturbed.wait_step(KILL_AT_STEP, LIMIT_S)
    undisturbed.processes(role)[0].kill()
    wait_for(lambda: not undisturbed.processes("rank"), "the ranks of the killed attempt end", 60, every_s=0.1)
    made = json.loads(losses_of(undisturbed, submission)[-1])["step"]
    undisturbed.wait(within_s=LIMIT_S)

    assert_healed(undisturbed, submission, undisturbed, attempts=2, tries=tries_before + 1)
    log = undisturbed.log(tries_before + 1)
    resumed = next(line for line in log.splitlines() if "resumed from step" in line)
    resumed_step = int(resumed.split("resumed from step ")[1].split()[0])
    assert made >= KILL_AT_STEP
    assert made - resumed_step <= ASKED["checkpoint_every_steps"]


def test_a_killed_triggerer_does_not_touch_the_training(undisturbed: GangRun, stack: Any) -> None:
    tries_before = undisturbed.task()["try_number"]
    submission = undisturbed.train_again()
    undisturbed.wait_step(KILL_AT_STEP, LIMIT_S)
    os.kill(stack.pid_of("triggerer"), signal.SIGKILL)
    undisturbed.wait(within_s=LIMIT_S)

    assert_healed(undisturbed, submission, undisturbed, attempts=1, tries=tries_before + 1)


@pytest.mark.parametrize("moment", ["execute", "resume"])
def test_a_killed_task_process_does_not_touch_the_training(held: GangRun, undisturbed: GangRun, moment: str) -> None:
    tries_before = held.task()["try_number"]
    hold: Path = held.home / "holds" / moment
    hold.parent.mkdir(exist_ok=True)
    hold.touch()
    pid_file = hold.with_suffix(".pid")
    try:
        submission = held.train_again()
        pid = int(wait_for(lambda: pid_file.read_text() if pid_file.exists() else "", f"held at {moment}", LIMIT_S))
        if moment == "execute":
            wait_for(lambda: step_after_a_tick(held) >= KILL_AT_STEP, "the gang trains", 100)
        os.kill(pid, signal.SIGKILL)
        pid_file.unlink()
    finally:
        hold.unlink()
    held.wait(within_s=LIMIT_S)

    assert_healed(held, submission, undisturbed, attempts=1, tries=tries_before + 2)
