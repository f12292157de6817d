"""Finds a node's holder, or starts it, and talks to it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from training.checkpoints.holder import ADDRESS
from training.files import digest_of
from training.warm_start.address import make_private

IDLE_S = 600.0  # for a gang to come back
UP_WITHIN_S = 30.0
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it is made for this user alone


@dataclass(frozen=True, slots=True)
class HolderAddress:
    """Where a holder listens, what it asks for, and its process on its own node."""

    host: str
    port: int
    token: str
    pid: int


class HolderLine:
    """A connection to a holder; while it is open, the holder stays."""

    def __init__(self, address: HolderAddress) -> None:
        """Connect.

        Raises:
            OSError, EOFError, AuthenticationError: nobody is there, or somebody else is.
        """
        self._connection: Connection = Client((address.host, address.port), authkey=bytes.fromhex(address.token))
        self._lock = threading.Lock()

    def hold(self, step: int, name: str, content: memoryview) -> None:
        """Give it a file of a checkpoint in the making."""
        self._ask({"do": "hold", "step": step, "name": name}, content)

    def commit(self, step: int, commit: dict[str, Any]) -> None:
        """Tell it that the checkpoint is committed, by this manifest; it forgets all others."""
        self._ask({"do": "commit", "step": step, "commit": commit})

    def committed(self) -> list[dict[str, Any]]:
        """`{commit, files}` of what it holds: the manifest, and the names of those of its files that it has."""
        found: list[dict[str, Any]] = json.loads(self._ask({"do": "list"}))
        return found

    def fetch(self, step: int, name: str) -> bytes:
        """A file's bytes."""
        return self._ask({"do": "fetch", "step": step, "name": name})

    def end(self) -> None:
        """Have it end."""
        self._connection.send_bytes(json.dumps({"do": "end"}).encode())

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _ask(self, request: dict[str, Any], content: memoryview | None = None) -> bytes:
        with self._lock:
            self._connection.send_bytes(json.dumps(request).encode())
            if content is not None:
                self._connection.send_bytes(content)
            return self._connection.recv_bytes()


def folder_of(run_dir: Path) -> Path:
    """Where this node's holder for a run has its address: in memory, unless `TMPDIR` says otherwise."""
    shared = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    base = Path(os.environ.get("TMPDIR") or shared)
    return base / f"phalanx-{os.geteuid()}-{digest_of(str(run_dir.absolute()))[:16]}"


def own_host() -> str:
    """The address by which the gang's other nodes reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
        probe.connect((os.environ.get("MASTER_ADDR", "127.0.0.1"), 9))
        return str(probe.getsockname()[0])


def find_or_start(folder: Path) -> HolderAddress:
    """The address of this node's holder.

    Raises:
        OSError: there is none, and none came up; its log says why.
    """
    make_private(folder)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _listening(folder)
        if found is not None:
            return found
        (folder / ADDRESS).unlink(missing_ok=True)
        command = [sys.executable, "-m", "training.checkpoints.holder", str(folder), own_host(), str(IDLE_S)]
        with (folder / "holder.log").open("w") as log:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        deadline = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < deadline:
            found = _listening(folder)
            if found is not None:
                return found
            time.sleep(0.02)
    raise OSError(f"holder: none came up in {folder} within {UP_WITHIN_S:g} s; {folder / 'holder.log'} says why.")


def _listening(folder: Path) -> HolderAddress | None:
    try:
        address = HolderAddress(**json.loads((folder / ADDRESS).read_bytes()))
        HolderLine(address).close()
    except (OSError, EOFError, ValueError, TypeError, AuthenticationError):
        return None
    return address
