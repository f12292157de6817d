"""Processes by identity: a pid means something only with the boot and the start time that belong to it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Every process of a stack inherits it; gangs don't, because their environment is built.
MARK = "PHALANX_STACK_HOME"
# What the parents of ranks carry, which supervisors start and nobody else ends while the stack is up.
WARM_PARENT_MARK = "PHALANX_WARM_PARENT"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process; `start_ticks` is its start in clock ticks since boot."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Who has `pid` now; None if nobody does (a zombie is nobody)."""
        ticks = _start_ticks(pid)
        return None if ticks is None else cls(pid, ticks, boot_id())

    @classmethod
    def read(cls, content: Any) -> ProcessIdentity | None:
        """The identity that `as_json` gave; None if it is none."""
        try:
            return cls(int(content["pid"]), int(content["start_ticks"]), str(content["boot_id"]))
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def is_alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def send(self, sent: signal.Signals) -> None:
        """Send the signal if the process is still this one."""
        if self.is_alive:
            try:
                os.kill(self.pid, sent)
            except ProcessLookupError:
                return


def boot_id() -> str:
    """Names this boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold spaces and parentheses; after it come the state and, 19 fields on, the start.
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def of_stack(home: Path, cluster: Path) -> list[ProcessIdentity]:
    """All live processes of the stack at `home`, the caller and its ancestors left out.

    Airflow's carry the home in their environment. PostgreSQL's overwrite theirs with their titles; they work in the
    folder of their cluster.
    """
    marks = {f"{MARK}={home}".encode(), f"{WARM_PARENT_MARK}={home / 'warm'}".encode()}
    mine = _ancestry()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid in mine:
            continue
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            is_of_stack = not marks.isdisjoint(environment) or (folder / "cwd").readlink() == cluster
        except OSError:  # it is gone, or another user's
            continue
        if is_of_stack and (identity := ProcessIdentity.of(pid)):
            found.append(identity)
    return found


def _ancestry() -> set[int]:
    pids, pid = set(), os.getpid()
    while pid > 1:
        pids.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            break
    return pids


def end_all(find: Callable[[], Iterable[ProcessIdentity]], grace_s: float) -> int:
    """SIGTERM, and SIGKILL after `grace_s`, for all that `find` finds, until it finds none; returns how many."""
    ended: set[ProcessIdentity] = set()
    deadline = time.monotonic() + grace_s
    while found := list(find()):
        is_late = time.monotonic() >= deadline
        for process in found:
            if process not in ended or is_late:
                process.send(signal.SIGKILL if is_late else signal.SIGTERM)
                ended.add(process)
        if time.monotonic() >= deadline + 30:
            raise TimeoutError(f"processes {[process.pid for process in found]} outlived SIGKILL by 30 s")
        time.sleep(0.05)
    return len(ended)
