"""One part of the stack: a child process that is started, watched, restarted with back-off, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from embedded_stack.child import Child, Command, describe_exit, execute
from embedded_stack.processes import ProcessIdentity

BACK_OFF_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S = 120.0  # a part that ran this long starts over with the shortest back-off
MAX_LOG_BYTES = 50_000_000


@dataclass(slots=True)
class Part:
    """A command and the process that it has now; used by one thread only."""

    command: Command
    spawn: Callable[[Command], Child] = execute
    restarts: int = 0
    health: str = "starting"
    last_exit: str = ""
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    identity: ProcessIdentity | None = None
    _process: Child | None = None
    _log_start: int = 0
    _started_at_s: float = 0.0
    _ended_at_s: float | None = None
    _failures_in_a_row: int = 0

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process, in a session of its own."""
        log = self.command.log
        if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        self._log_start = log.stat().st_size if log.exists() else 0
        self.since = datetime.now(UTC)
        self._process = self.spawn(self.command)
        self.identity = ProcessIdentity.of(self._process.pid)
        self.health = "starting"
        self._started_at_s, self._ended_at_s = time.monotonic(), None

    def watch(self) -> bool:
        """Notice an end and start again when the back-off is over; True if anything changed."""
        if self._process is None or (code := self._process.poll()) is None:
            return False
        now_s = time.monotonic()
        if self._ended_at_s is None:
            self._ended_at_s = now_s
            self._failures_in_a_row = 1 if now_s - self._started_at_s > STEADY_S else self._failures_in_a_row + 1
            self.last_exit = f"{describe_exit(code)} at {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            self.health = "restarting"
            return True
        if now_s - self._ended_at_s < BACK_OFF_S[min(self._failures_in_a_row, len(BACK_OFF_S)) - 1]:
            return False
        self.restarts += 1
        self.start()
        return True

    def ask_to_end(self) -> None:
        """Send the stop signal, to the whole group where the command says so."""
        self._send(self.command.stop_signal, to_group=self.command.stop_whole_group)

    def wait(self, deadline_s: float) -> bool:
        """Wait for the end until `deadline_s` (monotonic), then kill the group; False if that was needed."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL, to_group=True)
            self._process.wait(30)
            return False
        return True

    def forget(self) -> None:
        """No longer restart: the part has been taken down."""
        self._process = None
        self.identity = None
        self.health = "stopped"

    def _send(self, sent: signal.Signals, *, to_group: bool) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        try:
            (os.killpg if to_group else os.kill)(self._process.pid, sent)
        except ProcessLookupError:
            return

    def exit_description(self) -> str:
        """How the process ended; "" while it runs."""
        code = None if self._process is None else self._process.poll()
        return "" if code is None else describe_exit(code)

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that the present process (or the last one) wrote."""
        with self.command.log.open("rb") as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - 20_000))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "process": self.identity.as_json() if self.identity else None,
            "health": self.health,
            "restarts": self.restarts,
            "since": self.since.isoformat(),
            "last_exit": self.last_exit,
            "log": str(self.command.log),
        }
