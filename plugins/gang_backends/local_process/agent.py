"""The torchrun agent of one attempt and, under it, the ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from gang_backends.local_process import proc_table
from gang_backends.local_process.launch_folder import Order, launch_folder
from gang_backends.local_process.proc_table import AttemptProcess

TETHER = str(Path(__file__).with_name("tether.py"))
# -I -S: no site, no environment: the tether costs 15 ms, not the start of a whole interpreter with its packages.
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


class Agent:
    """A running agent. It dies with the thread that made this object: make it in the main thread."""

    def __init__(self, order: Order) -> None:
        folder = launch_folder(Path(order.run_dir), order.key.attempt)
        self._marks = order.marks
        self._signalled: set[tuple[int, int]] = set()
        with (folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*TETHERED, *agent_command(order)],
                cwd=order.run_dir,
                env={**order.environment, "PHALANX_PARENT_PID": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The agent's pid."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """The agent's exit code (negative: a signal); None while it runs."""
        return self._process.poll()

    def ranks(self) -> list[AttemptProcess]:
        """The live ranks: children of the agent that know their rank."""
        return [p for p in proc_table.find(self._marks) if p.rank is not None and p.parent == self._process.pid]

    def terminate(self) -> None:
        """Send SIGTERM once to each rank; to the agent if it has none yet. Repeat until the agent has ended.

        Ranks are told directly: told by its own SIGTERM, the agent would report no exit codes (torch 2.13).
        """
        ranks = self.ranks()
        for rank in ranks:
            if (rank.pid, rank.start_time) not in self._signalled:
                self._signalled.add((rank.pid, rank.start_time))
                proc_table.send(rank.pid, rank.start_time, signal.SIGTERM)
        if not ranks and not self._signalled and self._process.poll() is None:
            self._signalled.add((self._process.pid, 0))
            self._process.terminate()

    def kill_ranks(self) -> None:
        """Send SIGKILL to the ranks; the agent then reports that and ends by itself."""
        for rank in self.ranks():
            proc_table.send(rank.pid, rank.start_time, signal.SIGKILL)

    def kill(self) -> None:
        """Send SIGKILL to the agent, with which its ranks die."""
        if self._process.poll() is None:
            self._process.kill()
