"""Starts a supervisor so that it outlives whoever starts it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gang_backends.backend import BackendError
from gang_backends.local_process.launch_folder import END, SUPERVISOR, Ended, locked
from gang_scheduler.verdict import AttemptEnd, Cause

LAUNCH_WITHIN_S = 15.0
POLL_S = 0.02
LOG_LINES_IN_ERROR = 5


def start_supervisor(folder: Path, environment: Mapping[str, str]) -> str:
    """Start the supervisor of a launch folder unless it has or had one, and return that one's ref.

    Raises:
        BackendError: none came up; by then it is certain that none will in this folder.
    """
    identity = folder / SUPERVISOR
    if not identity.exists() and (ended := Ended.read(folder)) is not None:
        raise BackendError(f"launch folder {folder}: the attempt was given up before it started ({ended.end.proof})")
    if not identity.exists():
        deadline = time.monotonic() + LAUNCH_WITHIN_S
        is_up = _spawn(folder, environment, LAUNCH_WITHIN_S)
        # The one that is up may be another launcher's, and not have said who it is yet.
        while is_up and not identity.exists() and not (folder / END).exists() and time.monotonic() < deadline:
            time.sleep(POLL_S)
    if not identity.exists() and give_up(folder, "no supervisor came up"):
        raise BackendError(
            f"launch folder {folder}: no supervisor came up within {LAUNCH_WITHIN_S:.0f} s "
            f"(gang_backends/local_process/launcher.py); its log ends with: {_end_of_log(folder)}"
        )
    return identity.read_text().strip()


def give_up(folder: Path, why: str) -> bool:
    """Make sure that nothing ever starts in a launch folder without a supervisor; False if it has one after all."""
    with locked(folder) as has_lock:
        if (folder / SUPERVISOR).exists():
            return False
        if not has_lock:
            raise BackendError(f"launch folder {folder}: a supervisor holds its lock and has not said who it is yet")
        if not (folder / END).exists():
            Ended(AttemptEnd(None, proof=why, forced_cause=Cause.LAUNCH_FAILED)).write(folder)
        return True


def _spawn(folder: Path, environment: Mapping[str, str], within_s: float) -> bool:
    """Start a supervisor; True if it says that it, or another one, is up."""
    with (folder / "supervisor.log").open("ab") as log:
        # -P: the folder's contents are no modules. What is started here ends as soon as its detached child is up.
        starter = subprocess.Popen(
            [sys.executable, "-P", "-m", "gang_backends.local_process.supervisor", str(folder)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return starter.wait(within_s) == 0
    except subprocess.TimeoutExpired:
        starter.kill()
        starter.wait()
        return False


def _end_of_log(folder: Path) -> str:
    try:
        lines = (folder / "supervisor.log").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return " | ".join(lines[-LOG_LINES_IN_ERROR:]) or "(nothing)"
