"""The stack goes down, or its launcher is killed, while a gang trains; the next `phalanx up` carries on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_api import AirflowApi, wait_for
from conftest import HERE, free_port, phalanx
from gang_runs import DAG_ID, GangRun, value_after

from gang_scheduler.gang_state import GangState

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
STEPS = 800  # at least 80 s: longer than any `down` takes


class Restartable:
    """A stack of one's own with the held DAG."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self._dags = base / "dags"
        self._dags.mkdir()
        (self._dags / "held_gang.py").symlink_to(HERE / "dags" / "held_gang.py")
        self._port = str(free_port())

    def up(self) -> AirflowApi:
        done = phalanx("up", "--detach", "--home", str(self.home), "--port", self._port, "--dags", str(self._dags))
        assert done.returncode == 0, done.stdout + done.stderr
        password = json.loads((self.home / "airflow" / "passwords.json").read_text())["admin"]
        return AirflowApi(f"http://127.0.0.1:{self._port}", "admin", password)

    def down(self) -> str:
        done = phalanx("down", "--home", str(self.home))
        assert done.returncode == 0, done.stdout + done.stderr
        return (self.home / "logs" / "up.log").read_text() + done.stdout

    def launcher(self) -> int:
        return int(json.loads((self.home / "stack.json").read_text())["launcher"]["pid"])


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    made = Restartable(tmp_path_factory.mktemp("restart"))
    yield made
    made.down()


def started(api: AirflowApi, home: Path) -> GangRun:
    wait_for(lambda: DAG_ID in {dag["dag_id"] for dag in api.dags()}, "the DAG is parsed", 120)
    api.call("PATCH", f"/api/v2/dags/{DAG_ID}", {"is_paused": False})
    run = GangRun.start(api, home, steps=STEPS)
    run.wait_step(25, within_s=180)
    return run


def test_a_gang_is_interrupted_with_a_checkpoint_and_the_next_up_resumes_it(own_stack: Restartable) -> None:
    run = started(own_stack.up(), own_stack.home)
    before = run.step()

    assert "1 of 1 gangs stopped with a checkpoint" in own_stack.down()
    run.assert_nothing_is_left(within_s=0)

    run.api = own_stack.up()
    run.wait(within_s=300)
    record = run.record()
    assert record is not None
    assert (record.state, record.submission, record.attempt) == (GangState.SUCCEEDED, 1, 2)
    assert (record.infrastructure_ends, record.user_ends) == (0, 0)
    assert run.task()["try_number"] == 1
    assert run.result()["value"] == value_after(STEPS)
    resumed = next(line for line in run.log().splitlines() if "resumed from step" in line)
    assert int(resumed.split("resumed from step ")[1].split()[0]) >= before
    run.assert_never_two_alive()


def test_a_gang_trains_on_when_the_launcher_is_killed_and_the_next_up_finds_it(own_stack: Restartable) -> None:
    run = started(own_stack.up() if not is_up(own_stack) else api_of(own_stack), own_stack.home)
    os.kill(own_stack.launcher(), signal.SIGKILL)
    supervisors = {process.pid for process in run.processes("supervisor")}
    assert len(supervisors) == 1

    run.api = own_stack.up()
    assert {process.pid for process in run.processes("supervisor")} <= supervisors
    run.wait(within_s=300)
    record = run.record()
    assert record is not None
    assert (record.state, record.submission, record.attempt) == (GangState.SUCCEEDED, 1, 1)
    assert run.task()["try_number"] == 1
    assert run.result()["value"] == value_after(STEPS)
    run.assert_never_two_alive()


def is_up(stack: Restartable) -> bool:
    return phalanx("status", "--home", str(stack.home)).returncode == 0


def api_of(stack: Restartable) -> AirflowApi:
    password = json.loads((stack.home / "airflow" / "passwords.json").read_text())["admin"]
    return AirflowApi(json.loads((stack.home / "stack.json").read_text())["address"], "admin", password)
