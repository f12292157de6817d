"""Finds the processes of gangs on this machine by what they carry, to kill them or to prove that none is left."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GangProcess:
    """One live process that belongs to an attempt; `role` is rank, agent or supervisor."""

    pid: int
    role: str
    gang_id: str
    rank: int | None = None

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process is gone, or not ours
        return b""


def of_home(home: Path) -> list[GangProcess]:
    """All supervisors, agents and ranks whose run folder lies under `home`."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        argv = _read(proc / "cmdline").decode(errors="replace").split("\0")
        state = _read(proc / "stat").decode(errors="replace").rpartition(")")[2].split()
        if not state or state[0] == "Z":
            continue
        env = dict(
            item.split("=", 1) for item in _read(proc / "environ").decode(errors="replace").split("\0") if "=" in item
        )
        pid = int(proc.name)
        if any("gang_backends.local_process.supervisor" in arg for arg in argv):
            if any(str(home) in arg for arg in argv):
                found.append(GangProcess(pid, "supervisor", ""))
        elif env.get("PHALANX_RUN_DIR", "").startswith(str(home)):
            gang_id = env.get("PHALANX_GANG_ID", "")
            if "RANK" in env:
                found.append(GangProcess(pid, "rank", gang_id, int(env["RANK"])))
            elif any("torch.distributed.run" in arg or "training.warm_start.agent" in arg for arg in argv):
                found.append(GangProcess(pid, "agent", gang_id))
    return found
