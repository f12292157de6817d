"""A rank dies with the agent that started it: an orphan would train on beside its own replacement."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Orphaned(Exception):
    """The parent went away before this process could be tied to it."""


def die_with_parent() -> None:
    """Have the kernel kill this process (SIGKILL) when its parent dies. Linux only; elsewhere nothing happens.

    Raises:
        Orphaned: the parent died meanwhile, so the kernel would never tell.
    """
    die_with(os.getppid())


def die_with(parent: int) -> None:
    """As `die_with_parent`, for a process that knows who its parent has to be.

    Raises:
        Orphaned: the parent died meanwhile, so the kernel would never tell.
    """
    if not sys.platform.startswith("linux"):
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if os.getppid() != parent:
        raise Orphaned(f"parent {parent} died while this process was starting")
