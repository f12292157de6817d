"""The local-process backend around real processes; the agent is a stand-in where it doesn't matter."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from gang_backends.backend import BackendError, Liveness
from gang_backends.local_process.identity import from_ref, look_at
from gang_backends.local_process.launch_folder import Ended
from gang_scheduler.verdict import Cause
from tests.gang_backends.local_host import OPEN_LEDGER, Host, wait_for

GRACE = timedelta(seconds=20)


def test_result_reaches_the_ledger_when_all_ranks_are_done(host: Host) -> None:
    order = host.order(steps=4)
    ref = host.launch(order)
    told = host.wait_end()
    assert told["end"]["agent_exit_code"] == 0
    assert [(rank["rank"], rank["exit_code"]) for rank in told["end"]["ranks"]] == [(0, 0), (1, 0)]
    assert told["result"] == {"steps": 4}
    state = host.wait_dead(order)
    assert state.end is not None
    assert state.end.forced_cause is None
    assert state.result == {"steps": 4}
    assert host.launch(order) == ref, "an attempt that ran is never started again"
    assert len(host.ledger.calls("start")) == 1
    assert host.ledger.calls("start")[0]["ref"] == ref


def test_one_supervisor_comes_up_when_many_launch_the_same_attempt_at_once(host: Host) -> None:
    order = host.order()
    refs: list[str] = []
    launches = [threading.Thread(target=lambda: refs.append(host.launch(order))) for _ in range(4)]
    for launch in launches:
        launch.start()
    for launch in launches:
        launch.join()
    host.wait_training(order)
    assert len(refs) == 4
    assert len(set(refs)) == 1
    assert len(host.ledger.calls("start")) == 1
    assert len(host.processes(order)) == 3, "one agent, two ranks"


def test_ranks_commit_and_end_with_75_when_the_backend_stops_them(host: Host) -> None:
    order = host.order(checkpoint_every=10**6)
    ref = host.launch(order)
    host.wait_training(order)
    assert host.backend.state(ref, order.run_dir, order.key).liveness is Liveness.ALIVE
    host.backend.stop(ref, order.run_dir, order.key, GRACE)
    end = host.wait_end()["end"]
    assert [rank["exit_code"] for rank in end["ranks"]] == [75, 75]
    assert end["was_asked_to_stop"]
    assert not end["was_superseded"]
    assert end["last_committed_step"] == end["last_step"] >= 3
    host.wait_dead(order)
    host.backend.stop(ref, order.run_dir, order.key, GRACE)  # repeating it is harmless


def test_ranks_commit_and_end_with_75_when_the_ledger_says_stop(host: Host) -> None:
    order = host.order()
    host.launch(order)
    host.wait_training(order)
    host.ledger.answer(directive="stop")
    end = host.wait_end()["end"]
    assert [rank["exit_code"] for rank in end["ranks"]] == [75, 75]
    assert end["was_asked_to_stop"]


def test_nothing_is_committed_any_more_when_the_attempt_is_superseded(host: Host) -> None:
    order = host.order(checkpoint_every=10**6)
    host.launch(order)
    host.wait_training(order)
    host.ledger.answer(directive="superseded")
    end = host.wait_end()["end"]
    assert end["was_superseded"]
    assert end["agent_exit_code"] == -signal.SIGKILL
    assert end["last_committed_step"] is None
    assert host.processes(order) == []


def test_ranks_are_killed_when_they_outstay_the_grace_period(host: Host) -> None:
    order = host.order(ignores_sigterm=True)
    ref = host.launch(order)
    host.wait_training(order)
    host.backend.stop(ref, order.run_dir, order.key, timedelta(seconds=0.5))
    end = host.wait_end()["end"]
    assert end["was_asked_to_stop"]
    assert [rank["exit_code"] for rank in end["ranks"]] == [None, None]
    assert host.processes(order) == []


def test_progress_is_this_launch_s_when_an_earlier_heartbeat_lies_there(host: Host) -> None:
    first, second = host.order(), host.order(attempt=2)
    host.launch(first)
    host.wait_training(first)
    host.kill_supervisor(first)
    host.wait_dead(first)
    host.launch(second)
    host.wait_training(second)
    told = wait_for(
        lambda: [c["progress"] for c in host.ledger.calls("renew") if c["attempt"] == 2 and c["progress"]],
        "progress is told",
    )
    assert {progress["claimed_attempt"] for progress in told} == {2}


def test_ranks_see_nothing_of_airflow_or_the_ledger(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://secret")
    monkeypatch.setenv("AIRFLOW_CONN_PHALANX_DEFAULT", "secret")
    order = host.order()
    ref = host.backend.launch(order, {"NCCL_DEBUG": "INFO"})
    host.refs[order.key] = ref
    host.wait_training(order)
    environment = ""
    for process in host.processes(order):
        environment = Path(f"/proc/{process.pid}/environ").read_text()
        assert "AIRFLOW" not in environment
        assert "LEDGER" not in environment
        assert "NCCL_DEBUG=INFO" in environment
    names = {item.partition("=")[0] for item in environment.split("\0") if item}
    assert {
        "PATH",
        "HOME",
        "LANG",
        "PYTHONPATH",
        "OMP_NUM_THREADS",
        "PHALANX_LAUNCH_DIR",
        "PHALANX_RESUME_FROM",
    } <= names
    supervisor = from_ref(ref)
    assert supervisor is not None
    environment = Path(f"/proc/{supervisor.pid}/environ").read_text()
    assert "AIRFLOW" not in environment
    assert f"PHALANX_LEDGER_URL_FILE={host.home / 'ledger.url'}" in environment


@pytest.mark.parametrize("name", ["AIRFLOW_HOME", "AIRFLOW__CORE__FERNET_KEY", "PHALANX_LEDGER_URL_FILE"])
def test_launch_is_refused_when_a_rank_would_be_given_what_it_must_not_see(host: Host, name: str) -> None:
    order = host.order()
    with pytest.raises(BackendError, match=name):
        host.backend.launch(order, {name: "x"})
    assert not host.launch_dir(order).exists()


def test_supervisor_is_detached_from_its_launcher(host: Host) -> None:
    order = host.order()
    supervisor = from_ref(host.launch(order))
    assert supervisor is not None
    host.wait_training(order)
    proc = Path(f"/proc/{supervisor.pid}")
    opened = {name.name: str(name.readlink()) for name in (proc / "fd").iterdir()}
    log = str(host.launch_dir(order) / "supervisor.log")
    assert (opened.pop("0"), opened.pop("1"), opened.pop("2")) == ("/dev/null", log, log)
    assert set(opened.values()) == {str(host.launch_dir(order) / "lock")}
    assert os.getsid(supervisor.pid) != os.getsid(0)
    parent = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
    assert parent != os.getpid()
    assert "libtorch" not in (proc / "maps").read_text()


# --- kill -9


@pytest.mark.parametrize("stage", ["confirming", "agent started", "training", "stopping"])
def test_nothing_is_left_and_nothing_starts_again_when_the_supervisor_is_killed(host: Host, stage: str) -> None:
    order = host.order(ignores_sigterm=stage == "stopping")
    if stage == "confirming":
        host.ledger.answer(hangs_for_s=5)
    ref = host.launch(order)
    if stage == "agent started":
        wait_for(lambda: host.processes(order), "the agent is there")
    elif stage != "confirming":
        host.wait_training(order, step=6)
    if stage == "stopping":
        host.backend.stop(ref, order.run_dir, order.key, GRACE)
    host.kill_supervisor(order)
    wait_for(lambda: not host.processes(order), "agent and ranks die with their supervisor")
    host.ledger.answer(hangs_for_s=0)
    state = host.wait_dead(order)
    assert state.end is not None
    assert state.end.forced_cause is Cause.SUPERVISOR_LOST
    assert state.end.agent_exit_code is None
    assert state.end.was_asked_to_stop is (stage == "stopping")
    if stage == "training":
        assert state.end.last_committed_step == 5
        assert state.end.log_tail == "rank 0 is here"
    assert host.launch(order) == ref
    assert host.processes(order) == []
    assert host.backend.state(ref, order.run_dir, order.key).end == state.end, "an end is told the same each time"


def test_what_ranks_started_is_killed_before_the_attempt_counts_as_dead(host: Host) -> None:
    order = host.order(leaves_child=True)
    host.launch(order)
    host.wait_training(order)
    wait_for(lambda: len(host.processes(order)) == 5, "the agent, two ranks, and a child of each")
    host.kill_supervisor(order)
    wait_for(lambda: len(host.processes(order)) == 2, "the two that no rank tethered stay")
    state = host.wait_dead(order)
    assert "killed what it had left behind" in state.proof
    assert host.processes(order) == []


def test_what_ranks_started_is_killed_before_the_end_is_told(host: Host) -> None:
    order = host.order(leaves_child=True, steps=3)
    host.launch(order)
    assert "killed what it had left behind" in host.wait_end()["end"]["proof"]
    assert host.processes(order) == []


def test_ranks_die_and_the_end_is_told_when_the_agent_is_killed(host: Host) -> None:
    order = host.order()
    host.launch(order)
    host.wait_training(order, step=6)
    os.kill(host.agent(order), signal.SIGKILL)
    end = host.wait_end()["end"]
    assert end["agent_exit_code"] == -signal.SIGKILL
    assert [rank["exit_code"] for rank in end["ranks"]] == [None, None]
    assert (end["was_asked_to_stop"], end["last_committed_step"]) == (False, 5)
    assert host.processes(order) == []


def test_a_finished_result_is_not_lost_when_the_supervisor_dies_before_it_can_tell(host: Host) -> None:
    order = host.order(steps=3)
    host.launch(order)
    host.wait_dead(order)
    (host.launch_dir(order) / "end.json").unlink()  # as if it had been killed just before
    state = host.wait_dead(order)
    assert state.end is not None
    assert state.end.forced_cause is Cause.DONE
    assert state.result == {"steps": 3}


def test_attempt_goes_on_when_its_launcher_is_killed(host: Host) -> None:
    order = host.order()
    script = (
        "import sys, time, pickle; from pathlib import Path;"
        "from gang_backends.local_process import LocalProcessBackend;"
        f"backend = LocalProcessBackend(Path({str(host.home / 'runs')!r}), Path({str(host.home / 'ledger.url')!r}),"
        f" {OPEN_LEDGER!r});"
        "backend.launch(pickle.loads(sys.stdin.buffer.read()), {}); print('launched', flush=True); time.sleep(600)"
    )
    launcher = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(pickle.dumps(order))
    launcher.stdin.close()
    assert launcher.stdout.readline() == b"launched\n"
    launcher.kill()
    launcher.wait()
    host.wait_training(order)
    found = host.backend.state("", order.run_dir, order.key)
    assert found.liveness is Liveness.ALIVE, "found without the ref that nobody could write down"
    ref = host.launch(order)
    assert len(host.ledger.calls("start")) == 1
    host.backend.stop(ref, order.run_dir, order.key, GRACE)
    assert [rank["exit_code"] for rank in host.wait_end()["end"]["ranks"]] == [75, 75]


def test_launch_goes_through_when_an_earlier_one_died_before_its_supervisor_came_up(host: Host) -> None:
    order = host.order(steps=2)
    host.backend._write_order(order, host.run_dir(), host.launch_dir(order), {})  # as far as that one got
    host.launch(order)
    assert host.wait_end()["result"] == {"steps": 2}


# --- the ledger


def test_nothing_is_started_when_the_ledger_says_no(host: Host) -> None:
    host.ledger.answer(may_start=False)
    order = host.order()
    ref = host.launch(order)
    state = host.wait_dead(order)
    assert state.end is not None
    assert state.end.forced_cause is Cause.LAUNCH_FAILED
    assert not (host.launch_dir(order) / "agent.log").exists()
    host.ledger.answer(may_start=True)
    assert host.launch(order) == ref
    assert len(host.ledger.calls("start")) == 1


def test_nothing_is_started_when_the_ledger_can_t_be_asked(host: Host) -> None:
    host.ledger.answer(is_reachable=False)
    order = host.order()
    ref = host.launch(order)
    host.backend.stop(ref, order.run_dir, order.key, GRACE)  # or it would go on asking for a while
    wait_for(lambda: Ended.read(host.launch_dir(order)), "it gives up")
    host.ledger.answer(is_reachable=True)
    state = host.wait_dead(order)
    assert state.end is not None
    assert state.end.forced_cause is Cause.INTERRUPTED
    assert not (host.launch_dir(order) / "agent.log").exists()


def test_training_goes_on_when_the_ledger_goes_away_for_a_while(host: Host) -> None:
    order = host.order()
    host.launch(order)
    host.wait_training(order)
    host.ledger.answer(is_reachable=False)
    log = host.launch_dir(order) / "supervisor.log"
    wait_for(lambda: "can't be reached" in log.read_text(), "the outage is noticed")
    step = json.loads((host.run_dir() / "heartbeat.json").read_text())["step"]
    host.wait_training(order, step + 60)  # a renewal or two later
    renewed = len(host.ledger.calls("renew"))
    host.ledger.answer(is_reachable=True)
    wait_for(lambda: len(host.ledger.calls("renew")) > renewed + 1, "the lease is renewed again")
    assert log.read_text().count("can't be reached") == 1
    assert log.read_text().count("answers again") == 1
    assert len(host.processes(order)) == 3


def test_stop_is_heard_and_the_end_is_kept_when_the_ledger_hangs(host: Host) -> None:
    order = host.order()
    ref = host.launch(order)
    host.wait_training(order)
    host.ledger.answer(hangs_for_s=60)
    renewed = len(host.ledger.calls("renew"))
    host.wait_training(order, 60)
    host.backend.stop(ref, order.run_dir, order.key, GRACE)
    ended = wait_for(lambda: Ended.read(host.launch_dir(order)), "the end is written", within_s=15)
    assert ended is not None
    assert [rank.exit_code for rank in ended.end.ranks] == [75, 75]
    assert len(host.ledger.calls("renew")) <= renewed + 1


def test_end_is_told_later_when_the_ledger_is_away_at_the_end(host: Host) -> None:
    order = host.order(steps=20)
    ref = host.launch(order)
    host.wait_training(order)
    host.ledger.answer(is_reachable=False)
    wait_for(lambda: Ended.read(host.launch_dir(order)), "the end is written")
    assert host.ledger.calls("end") == []
    assert host.backend.state(ref, order.run_dir, order.key).liveness is Liveness.ALIVE, "it is still trying to tell"
    host.ledger.answer(is_reachable=True)
    assert host.wait_end()["result"] == {"steps": 20}


# --- looking without a supervisor


def test_attempt_is_dead_and_never_starts_when_nobody_had_taken_it(host: Host) -> None:
    order = host.order()
    state = host.backend.state("", order.run_dir, order.key)
    assert state.liveness is Liveness.DEAD
    with pytest.raises(BackendError, match="given up"):
        host.backend.launch(order, {})
    assert host.ledger.calls("start") == []


def test_attempt_is_unknown_when_another_host_ordered_it(host: Host) -> None:
    order = host.order()
    host.backend._write_order(order, host.run_dir(), host.launch_dir(order), {})
    path = host.launch_dir(order) / "order.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": "elsewhere"}))
    state = host.backend.state("", order.run_dir, order.key)
    assert state.liveness is Liveness.UNKNOWN
    assert "elsewhere" in state.proof


@pytest.mark.parametrize("field", ["host", "pid_namespace", "boot", "start_time"])
def test_process_gets_no_signal_when_it_is_not_proven_to_be_the_supervisor(host: Host, field: str) -> None:
    order = host.order()
    ref = host.launch(order)
    host.wait_training(order)
    said = json.loads(ref)
    said[field] = said[field] - 1 if field == "start_time" else "another"
    host.backend.stop(json.dumps(said), order.run_dir, order.key, GRACE)
    supervisor = from_ref(ref)
    assert supervisor is not None
    assert look_at(supervisor)[0] is Liveness.ALIVE
    assert not (host.launch_dir(order) / "stop.json").exists()


def test_launch_is_refused_when_the_run_folder_lies_elsewhere(host: Host, tmp_path: Path) -> None:
    order = host.order()
    object.__setattr__(order, "run_dir", str(tmp_path / "runs" / ".." / "elsewhere"))
    with pytest.raises(BackendError, match="lies outside of"):
        host.backend.launch(order, {})


def test_launch_fails_with_its_log_when_the_supervisor_can_t_come_up(host: Host) -> None:
    order = host.order()
    host.launch_dir(order).mkdir(parents=True)
    (host.launch_dir(order) / "order.json").write_text("{}")
    with pytest.raises(BackendError, match="no readable order"):
        host.backend.launch(order, {})
    assert host.backend.state("", order.run_dir, order.key).liveness is Liveness.DEAD
