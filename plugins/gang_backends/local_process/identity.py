"""Who a process is: enough to never take another one for it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from gang_backends.backend import Liveness


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a pid means something: host, boot of that host, pid namespace."""

    host: str
    boot: str
    pid_namespace: str


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, told from every other that ever had its pid. `start_time` is in clock ticks since boot."""

    host: str
    boot: str
    pid_namespace: str
    pid: int
    start_time: int

    def to_ref(self) -> str:
        """The backend ref of the attempt that this process supervises."""
        return json.dumps({"schema": 1, "backend": "local_process", **asdict(self)}, sort_keys=True)


def from_ref(ref: str) -> ProcessIdentity | None:
    """The identity in a ref; None if it holds none."""
    try:
        content = json.loads(ref)
        return ProcessIdentity(
            host=str(content["host"]),
            boot=str(content["boot"]),
            pid_namespace=str(content["pid_namespace"]),
            pid=int(content["pid"]),
            start_time=int(content["start_time"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def surroundings() -> Surroundings:
    """Those of the calling process. The host is its machine id, else its name."""
    try:
        host = Path("/etc/machine-id").read_text().strip()
    except OSError:
        host = ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Surroundings(host or socket.gethostname(), boot, str(Path("/proc/self/ns/pid").readlink()))


def start_time_of(pid: int) -> int | None:
    """When the live process `pid` started, in clock ticks since boot; None if there is none (or only its zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold spaces and parentheses; after it come the state and, 19 fields on, the start.
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def own_identity() -> ProcessIdentity:
    """The identity of the calling process."""
    here = surroundings()
    start_time = start_time_of(os.getpid())
    assert start_time is not None
    return ProcessIdentity(here.host, here.boot, here.pid_namespace, os.getpid(), start_time)


def judge_liveness(process: ProcessIdentity, here: Surroundings, start_time: int | None) -> tuple[Liveness, str]:
    """Whether `process` lives, with the proof. `start_time` is that of whoever has its pid here now, if anyone."""
    if process.host != here.host:
        return Liveness.UNKNOWN, f"it ran on host {process.host}; this is host {here.host}, which can't see it"
    if process.boot != here.boot:
        return Liveness.DEAD, f"host {here.host} has been started anew since (boot {process.boot} is over)"
    if process.pid_namespace != here.pid_namespace:
        return Liveness.UNKNOWN, (
            f"it ran in another container of this host ({process.pid_namespace}; here {here.pid_namespace}), "
            "which can't be seen from here"
        )
    if start_time is None:
        return Liveness.DEAD, f"pid {process.pid} is gone on this boot"
    if start_time != process.start_time:
        started = f"started at {start_time}, not {process.start_time}"
        return Liveness.DEAD, f"pid {process.pid} is another process now ({started})"
    return Liveness.ALIVE, f"pid {process.pid} runs (started {process.start_time})"


def look_at(process: ProcessIdentity) -> tuple[Liveness, str]:
    """Whether `process` lives, with the proof, as seen from here and now."""
    return judge_liveness(process, surroundings(), start_time_of(process.pid))
