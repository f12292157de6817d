"""kill -9 of everything that takes part in a gang: the run ends well, with the result of an undisturbed one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from airflow_api import wait_for
from gang_runs import CHECKPOINT_EVERY_STEPS, GangRun, value_after

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
STEPS = 80


def kill_later(run: GangRun, role: str) -> int:
    """Kill a process of that role once the gang has two checkpoints; the step it was seen at before."""
    seen = run.wait_step(2 * CHECKPOINT_EVERY_STEPS + 5)
    run.processes(role)[0].kill()
    return seen


@pytest.mark.parametrize(
    "role",
    ["rank", pytest.param("agent", marks=pytest.mark.slow), pytest.param("supervisor", marks=pytest.mark.slow)],
)
def test_a_killed_part_of_the_gang_is_healed_within_the_try_when_a_checkpoint_exists(stack: Any, role: str) -> None:
    run = GangRun.start(stack.api, stack.home, steps=STEPS)
    seen = kill_later(run, role)
    run.wait()

    assert run.result() == {"steps": STEPS, "value": value_after(STEPS), "attempt": 2}
    assert run.task()["try_number"] == 1
    log = run.log()
    resumed = next(line for line in log.splitlines() if "resumed from step" in line)
    resumed_step = int(resumed.split("resumed from step ")[1].split()[0])
    assert seen - resumed_step <= CHECKPOINT_EVERY_STEPS
    assert "attempt 1 ended" in log
    run.assert_never_two_alive()
    run.assert_nothing_is_left()


@pytest.mark.slow
def test_the_gang_goes_on_undisturbed_when_the_triggerer_is_killed(stack: Any) -> None:
    run = GangRun.start(stack.api, stack.home, steps=STEPS)
    run.wait_step(15)
    os.kill(stack.pid_of("triggerer"), signal.SIGKILL)
    run.wait()

    assert run.result() == {"steps": STEPS, "value": value_after(STEPS), "attempt": 1}
    assert run.task()["try_number"] == 1
    run.assert_never_two_alive()
    run.assert_nothing_is_left()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["execute", "resume"])
def test_the_gang_runs_once_when_its_task_process_is_killed(stack: Any, moment: str) -> None:
    hold: Path = stack.home / "holds" / moment
    hold.parent.mkdir(exist_ok=True)
    hold.touch()
    try:
        run = GangRun.start(stack.api, stack.home, steps=STEPS)
        pid_file = hold.with_suffix(".pid")
        pid = int(wait_for(lambda: pid_file.read_text() if pid_file.exists() else "", f"task held at {moment}", 120))
        os.kill(pid, signal.SIGKILL)
        pid_file.unlink()
    finally:
        hold.unlink()
    run.wait()

    assert run.result() == {"steps": STEPS, "value": value_after(STEPS), "attempt": 1}
    record = run.record()
    assert record is not None
    assert (record.submission, record.attempt, record.user_ends) == (1, 1, 0)
    run.assert_never_two_alive()
    run.assert_nothing_is_left()
