"""What other processes read of this one in /proc: a forked process shows its parent's start until it says otherwise.

A supervisor finds the processes of an attempt by `/proc/<pid>/environ`, which is the memory where the kernel once put
the environment. It belongs to the process, so a forked one can write there what it would have been started with.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

# Fields of /proc/self/stat after the name, from 0 (proc_pid_stat(5): 48 to 51, counted from 1 with the name as 2).
ARG_START, ARG_END, ENV_START, ENV_END = 45, 46, 47, 48


class NoRoom(Exception):
    """The new environment is larger than the one that the warm parent was started with."""


def take_on(environment: Mapping[str, str], title: str) -> None:
    """Make `environment` that of this process, for itself and for all who look at it; `title` is for `ps`.

    Raises:
        NoRoom: it doesn't fit; nothing was changed.
    """
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    arg_start, arg_end, env_start, env_end = (int(fields[at]) for at in (ARG_START, ARG_END, ENV_START, ENV_END))
    block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    room = env_end - env_start
    if len(block) > room:
        raise NoRoom(
            f"an environment of {len(block)} bytes was asked for; the warm parent was started with {room} "
            "(training/warm_start/client.py). Start the ranks without it"
        )
    # First for getenv(), whose pointers lead into that memory until each name is gone from it.
    os.environ.clear()
    os.environ.update(environment)
    ctypes.memmove(env_start, block.ljust(room, b"\0"), room)
    # The last byte stays 0: the kernel would otherwise read on into the environment.
    length = arg_end - arg_start
    ctypes.memmove(arg_start, os.fsencode(title)[: length - 1].ljust(length, b"\0"), length)
