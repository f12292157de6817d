"""One part of the stack: a child process that is started, watched, restarted with back-off, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedded_stack.processes import ProcessIdentity

WRAPPER = Path(__file__).with_name("owned_exec.py")
BACK_OFF_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S = 120.0  # a part that ran this long starts over with the shortest back-off
MAX_LOG_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Command:
    """How a part is started. `stop_signal` is what asks it to end in order, also when its owner dies."""

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    cwd: Path
    stop_signal: signal.Signals = signal.SIGTERM
    stop_whole_group: bool = False
    user: tuple[int, int] | None = None
    passes_closed_folders: bool = False


@dataclass(slots=True)
class Part:
    """A command and the process that it has now; used by one thread only."""

    command: Command
    restarts: int = 0
    health: str = "starting"
    last_exit: str = ""
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    identity: ProcessIdentity | None = None
    _process: subprocess.Popen[bytes] | None = None
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
        user = "-" if self.command.user is None else "{}:{}".format(*self.command.user)
        argv = [
            *(sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), str(int(self.command.stop_signal)), user),
            *("yes" if self.command.passes_closed_folders else "no", *self.command.argv),
        ]
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self.command.environment),
                cwd=self.command.cwd,
                start_new_session=True,
            )
        self.identity = ProcessIdentity.of(self._process.pid)
        self.since = datetime.now(UTC)
        self.health = "starting"
        self._started_at_s, self._ended_at_s = time.monotonic(), None

    def watch(self) -> bool:
        """Notice an end and start again when the back-off is over; True if anything changed."""
        if self._process is None or self.is_running:
            return False
        now_s = time.monotonic()
        if self._ended_at_s is None:
            self._ended_at_s = now_s
            self._failures_in_a_row = 1 if now_s - self._started_at_s > STEADY_S else self._failures_in_a_row + 1
            self.last_exit = f"{describe_exit(self._process.returncode)} at {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
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
            self._process.wait()
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


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs a module with this interpreter."""
    return (sys.executable, "-m", module, *arguments)


def run_once(command: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path) -> int:
    """Run a command to its end with its output appended to `log`; returns its exit code."""
    with log.open("ab") as output:
        return subprocess.run(
            list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=dict(environment),
            cwd=cwd, check=False, start_new_session=True,
        ).returncode  # fmt: skip
