"""The agent of one attempt where a warm parent forked it."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gang_backends.local_process import proc_table
from gang_backends.local_process.agent import Agent, RankSignals
from gang_backends.local_process.identity import start_time_of
from gang_backends.local_process.launch_folder import Order, launch_folder
from gang_backends.local_process.rank_devices import RankDevices
from training.warm_start.client import AgentLine, WarmStartUnavailable, ask
from training.warm_start.request import Request

WARM_DIR, WARM_IDLE_S = "PHALANX_WARM_DIR", "PHALANX_WARM_IDLE_S"
FORKABLE = ("-m", "training.train")  # a warm parent has imported what this program imports, and knows of no other


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Where warm parents live, and how long one stays when nobody asks it for anything."""

    folder: Path
    idle_s: float

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self | None:
        """What a supervisor's environment says; None if attempts start in the plain way."""
        folder = env.get(WARM_DIR)
        return cls(Path(folder), float(env[WARM_IDLE_S])) if folder else None

    def to_env(self) -> dict[str, str]:
        """What `from_env` reads."""
        return {WARM_DIR: str(self.folder), WARM_IDLE_S: str(self.idle_s)}


class WarmAgent:
    """A forked agent, with the manners of `Agent`. It dies when this process does or lets go of its line."""

    def __init__(self, order: Order, warm: WarmStart, devices: Sequence[RankDevices] = ()) -> None:
        """Have it forked. Without `devices` the ranks take those of the host as they find them.

        Raises:
            WarmStartUnavailable: it could not be had; nothing of it runs.
        """
        folder = launch_folder(Path(order.run_dir), order.key.attempt)
        request = Request(
            environment=order.environment,
            module=order.command[1],
            arguments=order.command[2:],
            workers=order.workers,
            folder=order.run_dir,
            rank_environments=[each.environment() for each in devices],
            rank_cpus=[each.cpus for each in devices],
        )
        with (folder / "agent.log").open("ab") as log:
            self._line = ask(warm.folder, warm.idle_s, request, log.fileno())
        self._start_time = start_time_of(self._line.pid)
        self._signals = RankSignals(order.marks, self._line.pid)
        _wake_on_news(self._line)

    @property
    def pid(self) -> int:
        """The agent's pid."""
        return self._line.pid

    def exit_code(self) -> int | None:
        """The agent's exit code; None while it runs. One that went without a word was killed."""
        said = self._line.exit_code()
        if said is not None:
            return said
        if not self._line.is_gone or self._is_alive():
            return None
        return -signal.SIGKILL

    def ranks(self) -> list[proc_table.AttemptProcess]:
        """The live ranks."""
        return self._signals.ranks()

    def terminate(self) -> None:
        """Send SIGTERM once to each rank; to the agent if it has none yet. Repeat until the agent has ended."""
        if not self._signals.terminate_ranks() and self._start_time is not None:
            proc_table.send(self.pid, self._start_time, signal.SIGTERM)

    def kill_ranks(self) -> None:
        """Send SIGKILL to the ranks; the agent then reports that and ends by itself."""
        self._signals.kill_ranks()

    def kill(self) -> None:
        """Send SIGKILL to the agent, with which its ranks die."""
        if self._start_time is not None:
            proc_table.send(self.pid, self._start_time, signal.SIGKILL)

    def _is_alive(self) -> bool:
        return self._start_time is not None and start_time_of(self.pid) == self._start_time


def start_agent(
    order: Order, warm: WarmStart | None, devices: Sequence[RankDevices] = ()
) -> tuple[Agent | WarmAgent, str]:
    """Start the attempt's agent, forked where that can be; returns why it wasn't as well (empty if it was).

    Raises:
        OSError: no agent can be started at all.
    """
    if warm is None:
        why_not = "warm start is off"
    elif order.command[:2] != FORKABLE:
        why_not = f"warm parents know only the program {' '.join(FORKABLE)}"
    else:
        try:
            return WarmAgent(order, warm, devices), ""
        except WarmStartUnavailable as error:
            why_not = str(error)
            proc_table.kill_all(order.marks)  # what it may have begun ends with its line; this waits for it
    return Agent(order, devices), why_not


def _wake_on_news(line: AgentLine) -> None:
    """Have the kernel send SIGIO when there is news, which wakes the supervisor's sleep as a child's end does."""
    fcntl.fcntl(line.fileno(), fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(line.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(line.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
