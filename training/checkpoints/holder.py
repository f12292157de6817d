"""A small process on each node that keeps checkpoints in memory, and outlives the ranks that gave them to it.

    python -m training.checkpoints.holder FOLDER HOST IDLE_S

Its address and the token that it asks for lie in FOLDER, which is this user's alone. It ends when it is told to, when
its folder is gone, or when nobody has been connected for IDLE_S seconds: ranks stay connected while they live.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from training.files import write_json

ADDRESS = "address.json"
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(slots=True)
class Held:
    """A checkpoint's files by name, and its commit manifest once it has been committed."""

    files: dict[str, bytes] = field(default_factory=dict)
    commit: dict[str, Any] | None = None


class Holder:
    """Answers requests: a page of JSON each, followed by a file's bytes where that is said. Nothing is unpickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, Held] = {}
        self._connected = 0
        self._left_at = time.monotonic()

    def idle_s(self) -> float:
        """How long nobody has been connected."""
        with self._lock:
            return 0.0 if self._connected else time.monotonic() - self._left_at

    def serve(self, connection: Connection) -> None:
        """Answer one client until it leaves."""
        with self._lock:
            self._connected += 1
        try:
            with connection:
                while True:
                    request = json.loads(connection.recv_bytes())
                    content = connection.recv_bytes() if request["do"] == "hold" else b""
                    connection.send_bytes(self._answer(request, content))
        except (EOFError, OSError):
            pass
        finally:
            with self._lock:
                self._connected -= 1
                self._left_at = time.monotonic()

    def _answer(self, request: dict[str, Any], content: bytes) -> bytes:
        with self._lock:
            match request["do"]:
                case "hold":  # what never got committed makes room
                    step = request["step"]
                    self._held = {at: held for at, held in self._held.items() if held.commit or at == step}
                    self._held.setdefault(step, Held()).files[request["name"]] = content
                case "commit":
                    kept = self._held.get(request["step"], Held())
                    kept.commit = request["commit"]
                    self._held = {request["step"]: kept}
                case "list":
                    found = {step: held for step, held in self._held.items() if held.commit}
                    said = [{"commit": held.commit, "files": list(held.files)} for held in found.values()]
                    return json.dumps(said).encode()
                case "fetch":
                    return self._held[request["step"]].files[request["name"]]
                case "end":
                    os._exit(0)
        return b""


def main(folder: Path, host: str, idle_s: float) -> None:
    """Serve until it is time to end."""
    token, holder = secrets.token_bytes(32), Holder()
    listener = Listener((host, 0), authkey=token)
    threading.Thread(target=_accept, args=(listener, holder), daemon=True).start()
    os.umask(0o077)
    address = {"host": host, "port": listener.address[1], "token": token.hex(), "pid": os.getpid()}
    write_json(folder / ADDRESS, address, durable=False)
    while holder.idle_s() < idle_s and (folder / ADDRESS).exists():
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _accept(listener: Listener, holder: Holder) -> None:
    while True:
        try:
            connection = listener.accept()
        except (AuthenticationError, EOFError, OSError):
            continue
        threading.Thread(target=holder.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    if os.fork():  # it outlives who starts it, and must be nobody's child to wait for
        os._exit(0)
    os.setsid()
    os.chdir("/")
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
    os._exit(0)
