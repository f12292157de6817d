"""Forked agents and ranks: the same proofs of death, reports and logs as under the real torchrun."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gang_backends.backend import LaunchOrder
from gang_backends.local_process import LocalProcessBackend, WarmStart, proc_table
from gang_backends.local_process.agent import Agent
from gang_backends.local_process.identity import start_time_of
from gang_backends.local_process.launch_folder import Order
from gang_backends.local_process.warm_agent import start_agent
from gang_scheduler.judge import judge
from gang_scheduler.verdict import Cause
from tests.gang_backends.local_host import OPEN_LEDGER, Host, wait_for
from tests.training.day_partitions import a_spec, write_days

IDLE_S = 120.0
MARK = b"PHALANX_WARM_PARENT="


def parents_in(warm_dir: Path) -> list[int]:
    """The warm parents that live there."""
    mark = MARK + str(warm_dir).encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0") and start_time_of(int(folder.name)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def warm_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the parents of this module live: they are what is dear, so all tests use the same."""
    folder = tmp_path_factory.mktemp("warm")
    yield folder
    for pid in parents_in(folder):
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not parents_in(folder), "warm parents end on SIGTERM")


@pytest.fixture(scope="module")
def spec_json(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of two ranks that takes minutes unless it is ended."""
    days = write_days(tmp_path_factory.mktemp("data"), 4)
    spec = a_spec(days, workers=2, checkpoint_every_steps=20)
    return replaced_epochs(spec.to_json(), 1000)


def replaced_epochs(spec_json: str, epochs: int) -> str:
    content = json.loads(spec_json)
    content["params"]["epochs"] = epochs
    return json.dumps(content)


@pytest.fixture
def warm_host(real_host: Host, warm_dir: Path) -> Host:
    """A host whose attempts are forked."""
    warm = WarmStart(warm_dir, IDLE_S)
    real_host.backend = LocalProcessBackend(real_host.home / "runs", real_host.home / "ledger.url", OPEN_LEDGER, warm)
    return real_host


def training(host: Host, spec_json: str, attempt: int = 1) -> LaunchOrder:
    order = host.order(attempt=attempt)
    request = replace(order.request, command=("-m", "training.train", "{run_spec}"), run_spec_json=spec_json)
    return replace(order, request=request)


def supervisor_log(host: Host, order: LaunchOrder) -> str:
    return (host.launch_dir(order) / "supervisor.log").read_text()


def test_result_is_told_and_logs_are_where_they_belong_when_forked_ranks_are_done(
    warm_host: Host, spec_json: str
) -> None:
    order = training(warm_host, replaced_epochs(spec_json, 1))
    warm_host.launch(order)
    end = warm_host.wait_end()
    assert end["result"]["steps"] > 0
    assert end["end"]["agent_exit_code"] == 0
    assert [rank["exit_code"] for rank in end["end"]["ranks"]] == [0, 0]
    assert ", forked" in supervisor_log(warm_host, order)
    assert "done: " in (warm_host.launch_dir(order) / "rank-0.log").read_text()
    assert warm_host.wait_dead(order).end is not None
    assert warm_host.processes(order) == []


def test_forked_processes_are_told_apart_by_their_environment_as_started_ones_are(
    warm_host: Host, spec_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    order = training(warm_host, spec_json)
    warm_host.launch(order)
    warm_host.wait_training(order)
    agent, ranks = warm_host.agent(order), warm_host.ranks(order)
    assert sorted(ranks) == [0, 1]
    assert {p.parent for p in warm_host.processes(order) if p.rank is not None} == {agent}
    for pid in (agent, *ranks.values()):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"AIRFLOW" not in environment
        assert b"ledger.url" not in environment
        assert MARK not in environment
    assert os.getsid(agent) == os.getsid(ranks[0]) == agent
    assert Path(f"/proc/{ranks[1]}/cmdline").read_bytes().startswith(b"training.train rank 1")


def test_killed_rank_is_named_as_the_cause_and_the_next_attempt_goes_on(warm_host: Host, spec_json: str) -> None:
    order = training(warm_host, spec_json)
    warm_host.launch(order)
    warm_host.wait_training(order, step=25)
    os.kill(warm_host.ranks(order)[1], signal.SIGKILL)
    state = warm_host.wait_dead(order)
    assert state.end is not None
    assert judge(state.end).cause is Cause.RANK_KILLED
    killed, other = state.end.ranks
    assert (killed.rank, killed.exit_code) == (1, -signal.SIGKILL)
    assert (other.rank, other.exit_code, other.error_type) == (0, 70, "PeerLost")
    assert warm_host.processes(order) == []

    following = training(warm_host, spec_json, attempt=2)
    warm_host.launch(following)
    warm_host.wait_training(following, step=int(state.end.last_step or 0) + 1)
    assert "resumed from step" in (warm_host.launch_dir(following) / "rank-0.log").read_text()


def test_forked_ranks_die_and_the_end_is_told_when_their_agent_is_killed(warm_host: Host, spec_json: str) -> None:
    order = training(warm_host, spec_json)
    warm_host.launch(order)
    warm_host.wait_training(order)
    os.kill(warm_host.agent(order), signal.SIGKILL)
    end = warm_host.wait_end()["end"]
    assert end["agent_exit_code"] == -signal.SIGKILL
    assert warm_host.processes(order) == []


def test_nothing_forked_is_left_when_the_supervisor_is_killed(warm_host: Host, spec_json: str) -> None:
    order = training(warm_host, spec_json)
    warm_host.launch(order)
    warm_host.wait_training(order)
    warm_host.kill_supervisor(order)
    wait_for(lambda: not warm_host.processes(order), "agent and ranks die by themselves", within_s=10)
    state = warm_host.wait_dead(order)
    assert state.end is not None
    assert "killed what it had left" not in state.proof


def test_attempt_goes_on_when_the_warm_parent_is_killed_and_the_next_gets_a_new_one(
    warm_host: Host, warm_dir: Path, spec_json: str
) -> None:
    order = training(warm_host, spec_json)
    warm_host.launch(order)
    warm_host.wait_training(order)
    (parent,) = parents_in(warm_dir)
    os.kill(parent, signal.SIGKILL)
    step = json.loads((Path(order.run_dir) / "heartbeat.json").read_text())["step"]
    warm_host.wait_training(order, step=step + 5)

    warm_host.backend.stop(warm_host.refs[order.key], order.run_dir, order.key, timedelta(seconds=30))
    state = warm_host.wait_dead(order)
    assert state.end is not None
    assert [rank.exit_code for rank in state.end.ranks] == [75, 75]
    assert judge(state.end).cause is Cause.INTERRUPTED

    following = training(warm_host, spec_json, attempt=2)
    warm_host.launch(following)
    warm_host.wait_training(following, step=step)
    assert ", forked" in supervisor_log(warm_host, following)
    (successor,) = parents_in(warm_dir)
    assert successor != parent


@pytest.mark.parametrize("is_off", [True, False], ids=["switched off", "another program"])
def test_agent_is_torchrun_s_when_ranks_can_t_be_forked(host: Host, tmp_path: Path, is_off: bool) -> None:
    warm = None if is_off else WarmStart(tmp_path / "warm", IDLE_S)
    order = host.order()
    host.launch_dir(order).mkdir(parents=True)
    marks = {"PHALANX_GANG_ID": order.key.gang_id, "PHALANX_RUN_DIR": order.run_dir}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"], **marks}
    command = ("-m", "training.train", "spec.json") if is_off else ("-c", "raise SystemExit")
    agent, why_plain = start_agent(
        Order(order.key, order.run_dir, command, 1, 1.0, environment, OPEN_LEDGER, "here"), warm
    )
    try:
        assert isinstance(agent, Agent)
        assert ("off" if is_off else "know only the program -m training.train") in why_plain
        assert parents_in(tmp_path / "warm") == []
    finally:
        agent.kill()
        wait_for(lambda: agent.exit_code() is not None, "the agent ends")
        assert proc_table.kill_all(marks)[1] == []
