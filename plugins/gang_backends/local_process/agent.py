"""The torchrun agent of one attempt and, under it, the ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gang_backends.local_process import proc_table
from gang_backends.local_process.launch_folder import Order, launch_folder
from gang_backends.local_process.proc_table import AttemptProcess
from gang_backends.local_process.rank_devices import RankDevices

TETHER = str(Path(__file__).with_name("tether.py"))
# -I -S: no site, no environment: the tether costs 15 ms, not the start of a whole interpreter with its packages.
RANK_DEVICES = "PHALANX_RANK_DEVICES"  # tether.py reads it and takes it away
TETHERED = (sys.executable, "-I", "-S", TETHER)


def agent_command(order: Order) -> list[str]:
    """The torchrun command line. Port 0: the rendezvous takes a free one, so gangs on one host don't meet."""
    key = order.key
    folder = launch_folder(Path(order.run_dir), key.attempt)
    return [
        sys.executable, "-P", "-m", "torch.distributed.run",
        "--max-restarts=0", "--nnodes=1", f"--nproc-per-node={order.workers}",
        "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--rdzv-id=attempt-{key.attempt}",
        "--local-addr=127.0.0.1", f"--log-dir={folder / 'torchrun'}",
        "--no-python", *TETHERED, "--rank-log", *rank_command(order),
    ]  # fmt: skip


def rank_command(order: Order) -> list[str]:
    """The program of one rank, started as torchrun itself would have."""
    return [sys.executable, "-u", *order.command]


class RankSignals:
    """Finds and signals the ranks of one agent."""

    def __init__(self, marks: Mapping[str, str], agent_pid: int) -> None:
        self._marks = marks
        self._agent_pid = agent_pid
        self._told: set[tuple[int, int]] = set()
        self._has_asked_agent = False

    def ranks(self) -> list[AttemptProcess]:
        """The live ranks: children of the agent that know their rank."""
        return [p for p in proc_table.find(self._marks) if p.rank is not None and p.parent == self._agent_pid]

    def terminate_ranks(self) -> bool:
        """Send SIGTERM once to each rank; False if there never was one and the agent is to be told, once."""
        ranks = self.ranks()
        for rank in ranks:
            if (rank.pid, rank.start_time) not in self._told:
                self._told.add((rank.pid, rank.start_time))
                proc_table.send(rank.pid, rank.start_time, signal.SIGTERM)
        if ranks or self._told or self._has_asked_agent:
            return True
        self._has_asked_agent = True
        return False

    def kill_ranks(self) -> None:
        """Send SIGKILL to the ranks."""
        for rank in self.ranks():
            proc_table.send(rank.pid, rank.start_time, signal.SIGKILL)


class Agent:
    """A running agent. It dies with the thread that made this object: make it in the main thread."""

    def __init__(self, order: Order, devices: Sequence[RankDevices] = ()) -> None:
        """Start it. Without `devices` the ranks take those of the host as they find them."""
        folder = launch_folder(Path(order.run_dir), order.key.attempt)
        given = {RANK_DEVICES: ";".join(each.to_text() for each in devices)} if devices else {}
        with (folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*TETHERED, *agent_command(order)],
                cwd=order.run_dir,
                env={**order.environment, **given, "PHALANX_PARENT_PID": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._signals = RankSignals(order.marks, self._process.pid)

    @property
    def pid(self) -> int:
        """The agent's pid."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """The agent's exit code (negative: a signal); None while it runs."""
        return self._process.poll()

    def ranks(self) -> list[AttemptProcess]:
        """The live ranks."""
        return self._signals.ranks()

    def terminate(self) -> None:
        """Send SIGTERM once to each rank; to the agent if it has none yet. Repeat until the agent has ended.

        Ranks are told directly: told by its own SIGTERM, the agent would report no exit codes (torch 2.13).
        """
        if not self._signals.terminate_ranks() and self._process.poll() is None:
            self._process.terminate()

    def kill_ranks(self) -> None:
        """Send SIGKILL to the ranks; the agent then reports that and ends by itself."""
        self._signals.kill_ranks()

    def kill(self) -> None:
        """Send SIGKILL to the agent, with which its ranks die."""
        if self._process.poll() is None:
            self._process.kill()
