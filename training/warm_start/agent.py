"""The agent that a warm parent forks: what torchrun's agent does for one node, with ranks that are forked in turn.

torch's own agent can't be used here. It forks while threads of its rendezvous run, and of ranks that are functions
(`torch.distributed.elastic.multiprocessing.start_processes`) it reports one failure only, whichever it happened to
see: not the rank that was killed but perhaps one that missed it. Errors are reported in torch's own form, and ranks
find the store of their agent as under torchrun (torch 2.13).
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch's stubs leave it out
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from training.parent import die_with
from training.warm_start.own_memory import take_on
from training.warm_start.request import Request

LOOPBACK = "127.0.0.1"
TERM_GRACE_S = 30.0  # as torch's: from SIGTERM to SIGKILL for ranks that are left when one has failed
EXIT_ABANDONED = 137
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_agent(request: Request, asker: socket.socket) -> int:
    """Fork the ranks and see them to their end; returns the agent's exit code, 0 or 1 as torchrun's.

    When `asker` closes its end, the supervisor is gone: this process ends, and the kernel ends the ranks with it.
    """
    listener = socket.create_server((LOOPBACK, 0))
    port = listener.getsockname()[1]
    # Forked before the store exists, which has threads; who connects early waits in the listener's queue.
    ranks = _Ranks({_fork_rank(request, rank, port, listener, asker): rank for rank in range(request.workers)})
    ranks.forward_signals()
    store = TCPStore(LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    ranks.wait(asker)
    del store
    if not ranks.failures:
        return 0
    failures = {rank: ProcessFailure(rank, pid, code, "") for rank, pid, code in ranks.failures}
    sys.stderr.write(f"{ChildFailedError(request.module, failures)}\n")
    return 1


class _Ranks:
    """The forked ranks; `failures` holds (rank, pid, exit code), the first observed one first."""

    def __init__(self, rank_of: dict[int, int]) -> None:
        self.failures: list[tuple[int, int, int]] = []
        self._rank_of = rank_of
        self._pid_of_handle = {os.pidfd_open(pid): pid for pid in rank_of}
        self._kill_at: float | None = None

    def forward_signals(self) -> None:
        """Pass on what asks for an end, as torchrun does; the ranks decide."""

        def forward(number: int, _frame: FrameType | None) -> None:
            self._send(number)

        for number in FORWARDED:
            signal.signal(number, forward)

    def wait(self, asker: socket.socket) -> None:
        """Return once no rank is left. The first that fails takes the others with it."""
        poll = select.poll()
        poll.register(asker, select.POLLIN | select.POLLHUP)
        for handle in self._pid_of_handle:
            poll.register(handle, select.POLLIN)
        while self._pid_of_handle:
            wait_ms = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic()) * 1000
            ready = [handle for handle, _ in poll.poll(wait_ms)]
            if asker.fileno() in ready:
                os._exit(EXIT_ABANDONED)
            for handle in ready:
                poll.unregister(handle)
            self._note(ready)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._send(signal.SIGKILL)
                self._kill_at = None

    def _note(self, handles: list[int]) -> None:
        ended = []
        for handle in handles:
            pid = self._pid_of_handle.pop(handle)
            os.close(handle)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            ended.append((code, self._rank_of.pop(pid), pid))
        # Of ranks seen at once the killed ones (below 0) come first: the others fail for want of them.
        failed = [(rank, pid, code) for code, rank, pid in sorted(ended) if code != 0]
        if failed and not self.failures:
            self._send(signal.SIGTERM)
            self._kill_at = time.monotonic() + TERM_GRACE_S
        self.failures += failed

    def _send(self, number: int) -> None:
        for pid in list(self._rank_of):  # not waited for yet, so no other process can have the pid
            os.kill(pid, number)


def _fork_rank(request: Request, rank: int, port: int, listener: socket.socket, asker: socket.socket) -> int:
    agent = os.getpid()
    own = request.rank_environments[rank] if request.rank_environments else {}
    environment = {**request.environment, **_torchrun_environment(request, rank, port), **own}
    if pid := os.fork():
        return pid
    code = 1
    try:
        die_with(agent)
        listener.close()
        asker.close()
        take_on(environment, f"{request.module} rank {rank} {' '.join(request.arguments)}")
        if request.rank_cpus and request.rank_cpus[rank]:
            os.sched_setaffinity(0, request.rank_cpus[rank])
        log = Path(environment["PHALANX_LAUNCH_DIR"]) / f"rank-{rank}.log"
        write_to(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        sys.argv = [request.module, *request.arguments]
        code = _exit_code_of(request.module)
    finally:
        os._exit(code)


def _exit_code_of(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - an interpreter would print it and end with 1
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def write_to(log: int) -> None:
    """Let standard output and error lead to an open file, line by line: nothing is lost with a killed process."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.reconfigure(write_through=True)


def _torchrun_environment(request: Request, rank: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank of one node."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "ROLE_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(request.workers),
        "LOCAL_WORLD_SIZE": str(request.workers),
        "ROLE_WORLD_SIZE": str(request.workers),
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": f"attempt-{request.environment.get('PHALANX_ATTEMPT', '1')}",
    }
