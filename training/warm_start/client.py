"""Asks a warm parent for an agent, and starts the parent if there is none. Imports no torch."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.warm_start.address import LOCK, LOG, folder_of, make_private, new_socket, short_path
from training.warm_start.key import FOR_PARENT, inherited, warm_key
from training.warm_start.request import Request

PARENT_MARK = "PHALANX_WARM_PARENT"  # who ends a stack finds its warm parents by it
# A parent is up after about 4 s of imports on two idle cores; plain torchrun takes twice as long to a first step.
PARENT_WITHIN_S = 30.0
ANSWER_WITHIN_S = 10.0
MOST_STARTS = 2
POLL_S = 0.02
ROOM_CHARACTERS = 64 * 1024  # for the environment of ranks: they can't have more than their parent was started with


class WarmStartUnavailable(Exception):
    """No agent came of it, and none will; start it in the plain way."""


@dataclass(slots=True)
class AgentLine:
    """The line to a forked agent; when it is closed, or this process dies, the agent and its ranks die."""

    pid: int
    _socket: socket.socket
    is_gone: bool = False

    def fileno(self) -> int:
        """For who waits: readable once there is news of the end."""
        return self._socket.fileno()

    def exit_code(self) -> int | None:
        """What the agent said at its end; None if nothing (yet): `is_gone` tells whether it still can."""
        if self.is_gone:
            return None
        try:
            message = self._socket.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            message = b""
        self.is_gone = True
        return int(json.loads(message)["exit_code"]) if message else None


def ask(warm_dir: Path, idle_s: float, request: Request, log_file: int) -> AgentLine:
    """Have an agent forked that writes to `log_file`.

    Raises:
        WarmStartUnavailable: it could not be had; nothing runs.
    """
    try:
        key = warm_key(request.environment)
        folder = folder_of(warm_dir, key)
        make_private(folder)
        line = _connect(folder, key, idle_s, inherited(request.environment))
    except OSError as error:
        raise WarmStartUnavailable(str(error)) from error
    try:
        line.settimeout(ANSWER_WITHIN_S)
        socket.send_fds(line, [request.to_json()], [log_file])
        answer: dict[str, Any] = json.loads(line.recv(4096) or b'{"refused": "the warm parent went away"}')
        if "pid" not in answer:
            raise WarmStartUnavailable(str(answer.get("refused", answer)))
    except (OSError, ValueError) as error:
        line.close()
        raise WarmStartUnavailable(f"the warm parent in {folder} did not answer: {error}") from error
    except WarmStartUnavailable:
        line.close()
        raise
    return AgentLine(int(answer["pid"]), line)


def _connect(folder: Path, key: str, idle_s: float, environment: Mapping[str, str]) -> socket.socket:
    deadline = time.monotonic() + PARENT_WITHIN_S
    starts = 0
    while True:
        line = new_socket()
        try:
            with short_path(folder) as path:
                line.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            line.close()
        except OSError:
            line.close()
            raise
        else:
            return line
        if not _has_parent(folder):
            if starts == MOST_STARTS:
                raise WarmStartUnavailable(f"no warm parent comes up; its log is {folder / LOG}")
            starts += 1
            _start_parent(folder, key, idle_s, environment)
        if time.monotonic() > deadline:
            raise WarmStartUnavailable(
                f"no warm parent came up within {PARENT_WITHIN_S:.0f} s (training/warm_start/client.py); "
                f"its log is {folder / LOG}"
            )
        time.sleep(POLL_S)


def _has_parent(folder: Path) -> bool:
    """Whether a parent lives or comes up there: it holds the lock from its first moment to its end."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _start_parent(folder: Path, key: str, idle_s: float, environment: Mapping[str, str]) -> None:
    marks = {PARENT_MARK: str(folder.parent), "PHALANX_WARM_ROOM": "-" * ROOM_CHARACTERS}
    with (folder / LOG).open("ab") as log:
        # It ends as soon as its detached child holds the lock.
        subprocess.run(
            [sys.executable, "-P", "-m", "training.warm_start.parent", str(folder), key, str(idle_s)],
            cwd="/",
            env={**environment, **FOR_PARENT, **marks},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )
