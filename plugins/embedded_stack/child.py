"""Child processes of the launcher: how one is started so that it can't outlive its owner unnoticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

WRAPPER = Path(__file__).with_name("owned_exec.py")

Executed = subprocess.Popen[bytes]


class Child(Protocol):
    """A started process; the calls are those of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(frozen=True, slots=True)
class Command:
    """What is started, and how. `stop_signal` asks it to end in order; the kernel sends it when its owner dies."""

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    cwd: Path
    stop_signal: signal.Signals = signal.SIGTERM
    stop_whole_group: bool = False
    user: tuple[int, int] | None = None
    passes_closed_folders: bool = False

    def with_argument(self, argument: str) -> Command:
        """The same with one argument more."""
        return replace(self, argv=(*self.argv, argument))


def execute(command: Command, keep_open: Sequence[int] = ()) -> Executed:
    """Start the command in a session of its own, its output appended to its log."""
    user = "-" if command.user is None else "{}:{}".format(*command.user)
    with command.log.open("ab") as output:
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), str(int(command.stop_signal)), user),
                *("yes" if command.passes_closed_folders else "no", *command.argv),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(command.environment),
            cwd=command.cwd,
            start_new_session=True,
            pass_fds=tuple(keep_open),
        )


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs a module with this interpreter."""
    return (sys.executable, "-m", module, *arguments)


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
