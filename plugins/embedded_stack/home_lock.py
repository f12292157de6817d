"""One launcher a home: a lock that the kernel lets go of when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from embedded_stack.errors import StackError
from embedded_stack.stack_record import StackRecord
from embedded_stack.state_folder import StateFolder


@contextmanager
def held(folder: StateFolder, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the home's lock.

    Raises:
        StackError: another `phalanx up` or `phalanx down` holds it for longer than `wait_s`.
    """
    # Not inheritable, as Python opens files: a child must not keep the lock of a dead launcher.
    handle = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_s
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise _taken(folder) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)


def _taken(folder: StateFolder) -> StackError:
    record = StackRecord.read(folder.stack)
    who = f"pid {record.launcher.pid}, {record.state}" if record.launcher else "just starting"
    where = f", UI {record.address}" if record.address else ""
    return StackError(
        f"a stack with the state folder {folder.home} is running already ({who}{where}). Stop it with `phalanx down "
        f"--home {folder.home}`, or take another folder with --home."
    )
