from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from gang_backends.backend import Liveness
from gang_backends.local_process import proc_table
from gang_backends.local_process.identity import (
    ProcessIdentity,
    Surroundings,
    from_ref,
    judge_liveness,
    look_at,
    own_identity,
    start_time_of,
)

HERE = Surroundings("host-a", "boot-1", "pid:[1]")
PROCESS = ProcessIdentity("host-a", "boot-1", "pid:[1]", 77, 1000)


@pytest.mark.parametrize(
    ("changed", "start_time", "liveness", "proof"),
    [
        pytest.param({}, 1000, Liveness.ALIVE, "pid 77 runs", id="all-five-equal"),
        pytest.param({}, None, Liveness.DEAD, "pid 77 is gone", id="gone"),
        pytest.param({}, 2000, Liveness.DEAD, "another process now", id="pid-used-again"),
        pytest.param({"boot": "boot-0"}, 1000, Liveness.DEAD, "started anew", id="host-was-rebooted"),
        pytest.param(
            {"boot": "boot-0", "pid_namespace": "pid:[2]"}, None, Liveness.DEAD, "anew", id="rebooted-container"
        ),
        pytest.param({"host": "host-b"}, 1000, Liveness.UNKNOWN, "host host-b", id="other-host"),
        pytest.param({"host": "host-b", "boot": "boot-0"}, None, Liveness.UNKNOWN, "host-b", id="other-host-and-boot"),
        pytest.param({"pid_namespace": "pid:[2]"}, 1000, Liveness.UNKNOWN, "another container", id="other-container"),
        pytest.param({"pid_namespace": "pid:[2]"}, None, Liveness.UNKNOWN, "another container", id="gone-in-other"),
    ],
)
def test_liveness_rests_on_all_five(
    changed: dict[str, str], start_time: int | None, liveness: Liveness, proof: str
) -> None:
    found, said = judge_liveness(replace(PROCESS, **changed), HERE, start_time)  # type: ignore[arg-type] # strings only
    assert found is liveness
    assert proof in said


def test_ref_gives_the_identity_back() -> None:
    assert from_ref(own_identity().to_ref()) == own_identity()


@pytest.mark.parametrize("ref", ["", "{}", "[]", "null", '{"pid": 1}', "not json"])
def test_ref_holds_no_identity_when_it_is_not_whole(ref: str) -> None:
    assert from_ref(ref) is None


def test_zombie_counts_as_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    identity = replace(own_identity(), pid=child.pid, start_time=start_time_of(child.pid) or 0)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is not reaped
    assert look_at(identity)[0] is Liveness.DEAD
    child.wait()


def test_signal_reaches_nobody_when_the_pid_belongs_to_another_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = start_time_of(child.pid)
        assert started is not None
        assert not proc_table.send(child.pid, started - 1, 9)
        assert child.poll() is None
        assert proc_table.send(child.pid, started, 9)
        assert child.wait() == -9
        assert not proc_table.send(child.pid, started, 9)
