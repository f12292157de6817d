"""`python -P -m training.warm_start.parent FOLDER KEY IDLE_S`: has torch imported, and forks an agent when asked.

It holds no state: each request brings a socket, on which the agent answers, and the file to log to. It ends
when nobody has asked for a while, when its folder is gone, or on SIGTERM; attempts that it started don't notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path

from training.code_version import code_version
from training.warm_start import preload
from training.warm_start.address import LOCK, SOCKET, new_socket, short_path
from training.warm_start.key import FOR_PARENT, warm_key
from training.warm_start.request import Request

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
REQUEST_BYTES = 1 << 20
LOCK_WITHIN_S = 1.0
POLL_S = 0.02
ASKED_WITHIN_S = 5.0


def serve(folder: Path, key: str, idle_s: float) -> None:
    """Fork agents for whoever asks, until it is time to end."""
    started_with = _environment_at_start()
    if warm_key(started_with) != key:
        log.info("what this parent would import is not what was asked for")
        return
    preload.import_all()
    code_version.cache_clear()
    if warm_key(started_with) != key:
        log.info("the code changed while it was imported")
        return
    preload.freeze()
    with new_socket() as listener:
        (folder / SOCKET).unlink(missing_ok=True)
        with short_path(folder) as path:
            listener.bind(path)
        listener.listen(64)
        listener.settimeout(min(LOOK_EVERY_S, idle_s))
        asked_at = time.monotonic()
        while time.monotonic() - asked_at < idle_s and (folder / SOCKET).exists():
            try:
                asker = listener.accept()[0]
            except TimeoutError:
                continue
            asked_at = time.monotonic()
            with asker:
                _answer(asker)


def _environment_at_start() -> dict[str, str]:
    """What this process was started with, without what its starter and the interpreter itself put in."""
    items = Path("/proc/self/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(item).partition("=") for item in items if item)
    return {name: value for name, _, value in pairs if name not in FOR_PARENT}


def _answer(asker: socket.socket) -> None:
    try:
        asker.settimeout(ASKED_WITHIN_S)
        message, logs, _, _ = socket.recv_fds(asker, REQUEST_BYTES, 1)
        asker.settimeout(None)
        if why := preload.why_not_fork():
            asker.send(json.dumps({"refused": why}).encode())
        elif os.fork() == 0:
            _be_agent(message, logs[0], asker)
        for handle in logs:
            os.close(handle)
    except (OSError, ValueError) as error:  # who asked is gone, or no supervisor at all
        log.warning("a request came to nothing: %s", error)


def _be_agent(message: bytes, log_file: int, asker: socket.socket) -> None:
    """Become an agent; never returns."""
    code = 1
    try:
        from training.warm_start.agent import run_agent, write_to
        from training.warm_start.own_memory import take_on

        _close_all_but(0, 1, 2, log_file, asker.fileno())  # the lock above all: it is the parent's as long as it lives
        request = Request.from_json(message)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        write_to(log_file)
        os.chdir(request.folder)
        take_on(request.environment, f"training.warm_start.agent {' '.join(request.arguments)}")
        asker.send(json.dumps({"pid": os.getpid()}).encode())
        code = run_agent(request, asker)
        asker.send(json.dumps({"exit_code": code}).encode())
    except BaseException as error:  # noqa: BLE001 - an interpreter would print it and end with 1
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(code)


def _close_all_but(*kept: int) -> None:
    for handle in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if handle not in kept:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(handle)


def _take_lock(folder: Path) -> bool:
    """Take the folder's lock for as long as this process or its detached child lives; False if a parent has it."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # perhaps only somebody who looks whether there is a parent
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        else:
            return True


def main(arguments: list[str]) -> None:
    """Serve from a child that belongs to nobody, if no other parent has the folder."""
    folder, key, idle_s = Path(arguments[0]), arguments[1], float(arguments[2])
    if not _take_lock(folder) or os.fork():
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # agents answer for themselves; nobody waits for them
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    serve(folder, key, idle_s)
    (folder / SOCKET).unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
