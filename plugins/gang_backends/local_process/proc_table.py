"""Finds the processes of one attempt by what their environment says, and signals them without ever hitting another."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gang_backends.local_process.identity import start_time_of

POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class AttemptProcess:
    """A live process of an attempt; `rank` is None for the agent and for whatever ranks or the agent started."""

    pid: int
    start_time: int
    parent: int
    rank: int | None


def find(marks: Mapping[str, str]) -> list[AttemptProcess]:
    """All live processes, zombies aside, whose environment holds every one of `marks`."""
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            if not wanted.issubset(environment):
                continue
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # gone meanwhile, or another user's and then not ours
            continue
        if fields[0] not in (b"Z", b"X"):
            found.append(AttemptProcess(int(entry.name), int(fields[19]), int(fields[1]), _rank(environment)))
    return found


def send(process_id: int, start_time: int, signal_number: int) -> bool:
    """Signal the process that has this pid and start time; False if it is gone, whoever has the pid now."""
    try:
        handle = os.pidfd_open(process_id)
    except ProcessLookupError:
        return False
    try:
        # The handle is bound to one process; if that is the right one now, it stays the right one.
        if start_time_of(process_id) != start_time:
            return False
        signal.pidfd_send_signal(handle, signal_number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def kill_all(marks: Mapping[str, str], within_s: float = 10.0) -> tuple[list[int], list[int]]:
    """Kill every process with these marks until none is left; returns the pids killed and those still there."""
    killed: set[int] = set()
    deadline = time.monotonic() + within_s
    while left := find(marks):
        for process in left:
            if send(process.pid, process.start_time, signal.SIGKILL):
                killed.add(process.pid)
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return sorted(killed), sorted(process.pid for process in left)


def _rank(environment: list[bytes]) -> int | None:
    for item in environment:
        if item.startswith(b"RANK="):
            with contextlib.suppress(ValueError):
                return int(item.removeprefix(b"RANK="))
    return None
