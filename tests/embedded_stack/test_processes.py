"""Which processes belong to a stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embedded_stack.processes import end_all, of_stack


@pytest.mark.parametrize("mark", ["PHALANX_STACK_HOME={home}", "PHALANX_WARM_PARENT={home}/warm"])
def test_marked_processes_of_this_home_are_ended_and_no_others(tmp_path: Path, mark: str) -> None:
    program = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    started = []
    for home in (tmp_path / "this", tmp_path / "other"):
        name, _, value = mark.format(home=home).partition("=")
        started.append(subprocess.Popen(program, env={name: value}, stdout=subprocess.PIPE))
    this, other = started
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
        assert end_all(lambda: of_stack(tmp_path / "this", tmp_path / "cluster"), grace_s=20) == 1
        assert this.wait(20) < 0
        assert other.poll() is None
    finally:
        for process in started:
            process.kill()
            process.communicate()
