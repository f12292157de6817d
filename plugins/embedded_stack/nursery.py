"""The launcher's side of the nursery: parts forked from a process that has imported Airflow already."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import time
from typing import Any

from embedded_stack.child import Child, Command, Executed, execute, python
from embedded_stack.processes import ProcessIdentity

READY_LIMIT_S = 120.0
FORK_LIMIT_S = 20.0
AIRFLOW = python("airflow")


class Forked:
    """A process that the nursery forked, and reports the end of."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        """The process `pid`, alive when it was forked."""
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery
        self._identity = ProcessIdentity.of(pid)

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        self._nursery.hear()
        if self.returncode is None and not self._nursery.is_alive and not (self._identity and self._identity.is_alive):
            self.returncode = -signal.SIGTERM  # what the kernel sends it when the nursery dies
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; subprocess.TimeoutExpired after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0.0)
            self._nursery.hear(0.1)
        return code


class Nursery:
    """A nursery process; where it does not serve, parts are started the slow way."""

    def __init__(self, command: Command) -> None:
        """Start it; it imports while the caller goes on. `command` lacks the number of the socket."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            numbered = command.with_argument(str(theirs.fileno()))
            self._process: Executed = execute(numbered, keep_open=(theirs.fileno(),))
        self._received = b""
        self._answers: list[dict[str, Any]] = []
        self._forked: dict[int, Forked] = {}
        self._ended: dict[int, int] = {}
        self.is_alive = True
        self._is_ready: bool | None = None

    def spawn(self, command: Command) -> Child:
        """Start an Airflow command, forked if possible."""
        if command.argv[: len(AIRFLOW)] == AIRFLOW and self._can_fork():
            order = {
                "arguments": command.argv[len(AIRFLOW) :],
                "log": str(command.log),
                "stop_signal": int(command.stop_signal),
            }
            answer = self._ask(order)
            if answer is not None:
                child = Forked(self, int(answer["pid"]))
                if (code := self._ended.pop(child.pid, None)) is not None:
                    child.returncode = code  # it ended before its pid was read here
                else:
                    self._forked[child.pid] = child
                return child
        return execute(command)

    def close(self) -> None:
        """End the nursery; what it forked must have ended before."""
        self._socket.close()
        self.is_alive = False
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def hear(self, wait_s: float = 0.0) -> None:
        """Take in what the nursery has said."""
        while self.is_alive:
            readable, _, _ = select.select([self._socket], [], [], wait_s)
            if not readable:
                return
            block = self._socket.recv(65536)
            if not block:
                self.is_alive = False
                return
            *lines, self._received = (self._received + block).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            wait_s = 0.0

    def _take(self, message: dict[str, Any]) -> None:
        if "ended" not in message:
            self._answers.append(message)
        elif child := self._forked.pop(int(message["ended"]), None):
            child.returncode = int(message["code"])
        else:
            self._ended[int(message["ended"])] = int(message["code"])

    def _can_fork(self) -> bool:
        if self._is_ready is None:
            answer = self._answer(READY_LIMIT_S)
            # A lock that another thread held at the fork would stay locked for ever.
            self._is_ready = answer is not None and answer.get("threads") == 1
        return self._is_ready and self.is_alive

    def _ask(self, order: dict[str, Any]) -> dict[str, Any] | None:
        try:
            self._socket.sendall(json.dumps(order).encode() + b"\n")
        except OSError:
            self.is_alive = False
            return None
        return self._answer(FORK_LIMIT_S)

    def _answer(self, limit_s: float) -> dict[str, Any] | None:
        deadline = time.monotonic() + limit_s
        while not self._answers and self.is_alive and time.monotonic() < deadline:
            self.hear(0.1)
        return self._answers.pop(0) if self._answers else None
