from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from embedded_stack import part as part_module
from embedded_stack.child import Command
from embedded_stack.nursery import Nursery
from embedded_stack.part import Part
from embedded_stack.processes import ProcessIdentity
from tests.embedded_stack.phalanx import wait_until


def a_command(tmp_path: Path, code: str, **more: object) -> Command:
    argv = (sys.executable, "-u", "-c", textwrap.dedent(code))
    return Command("sleeper", argv, tmp_path / "sleeper.log", dict(os.environ), tmp_path, **more)  # type: ignore[arg-type]


def test_a_part_is_restarted_after_its_back_off_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "BACK_OFF_S", (0.2, 0.4))
    part = Part(a_command(tmp_path, "raise SystemExit(7)"))
    part.start()

    def is_restarted() -> bool:
        part.watch()
        return part.restarts >= 2

    began = time.monotonic()
    wait_until(is_restarted, "two restarts", 30)
    assert time.monotonic() - began >= 0.6
    assert part.last_exit.startswith("ended with exit code 7 at ")
    part.ask_to_end()
    part.wait(time.monotonic() + 10)


def test_a_part_that_ignores_its_signal_is_killed_with_its_children(tmp_path: Path) -> None:
    part = Part(
        a_command(
            tmp_path,
            """
            import signal, subprocess, sys
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            print(child.pid)
            child.wait()
            """,
        )
    )
    part.start()
    wait_until(lambda: part.log_tail().strip().isdigit(), "it says its child's pid", 20)
    child = ProcessIdentity.of(int(part.log_tail()))
    assert child is not None
    part.ask_to_end()
    assert not part.wait(time.monotonic() + 0.5)
    wait_until(lambda: not child.is_alive, "the child is gone as well", 10)


def test_a_part_is_told_to_end_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import os, pathlib, sys, time
                from embedded_stack.child import Command, execute
                here = pathlib.Path(sys.argv[1])
                argv = (sys.executable, "-c", "import time; time.sleep(600)")
                print(execute(Command("x", argv, here / "x.log", dict(os.environ), here)).pid, flush=True)
                time.sleep(600)
                """
            ),
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    owned = ProcessIdentity.of(int(owner.stdout.readline()))
    assert owned is not None
    owner.kill()
    owner.communicate()
    wait_until(lambda: not owned.is_alive, "the part has ended with its owner", 10)


def test_an_identity_is_not_that_of_a_later_process_with_the_same_pid() -> None:
    mine = ProcessIdentity.of(os.getpid())
    assert mine is not None
    assert mine.is_alive
    assert ProcessIdentity.read(mine.as_json()) == mine
    assert not ProcessIdentity(mine.pid, mine.start_ticks + 1, mine.boot_id).is_alive
    assert not ProcessIdentity(mine.pid, mine.start_ticks, "another boot").is_alive


# A stand-in for the nursery that forks Airflow: the same protocol, without the import.
FAKE_NURSERY = """
import sys
from embedded_stack import airflow_nursery
airflow_nursery.SHARED = ()
def become(arguments):
    import os, signal
    if arguments[0] == "sleep":
        signal.pause()
    os._exit(int(arguments[1]))
airflow_nursery._become_airflow = become
airflow_nursery.main(sys.argv[1])
"""


def test_forked_parts_report_their_end_and_end_with_the_nursery(tmp_path: Path) -> None:
    nursery = Nursery(a_command(tmp_path, FAKE_NURSERY))
    airflow = (sys.executable, "-m", "airflow")
    environment = dict(os.environ)
    ends = Command("ends", (*airflow, "exit", "3"), tmp_path / "ends.log", environment, tmp_path)
    assert nursery.spawn(ends).wait(20) == 3
    sleeps = Command("sleeps", (*airflow, "sleep"), tmp_path / "sleeps.log", environment, tmp_path)
    part = Part(sleeps, nursery.spawn)
    part.start()
    assert part.is_running
    os.kill(nursery._process.pid, signal.SIGKILL)
    wait_until(lambda: not part.is_running, "the part has ended with the nursery", 10)
    assert "SIGTERM" in part.exit_description()
    nursery.close()
