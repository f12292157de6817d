"""Turns into a program that dies with its parent: `tether.py [--rank-log] PROGRAM ARGUMENT...`.

Run by path with `python -I -S`, so it must need nothing but the standard library. PHALANX_PARENT_PID names the process
that has to be the parent; the agent's tethered children find the agent named there. With `--rank-log` the program is a
rank: its standard output and error go to `rank-<RANK>.log` in the launch folder, and the name is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT = "PHALANX_PARENT_PID"
DEVICES = "PHALANX_RANK_DEVICES"
EXIT_ORPHANED = 137


def take_devices(local_rank: int, devices: str) -> None:
    """Take what `devices` gives this rank, in the form of rank_devices.py; nothing if it is empty."""
    if devices:
        gpus, _, cpus = devices.split(";")[local_rank].partition("@")
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
        if cpus:
            os.sched_setaffinity(0, map(int, cpus.split(",")))


def main(arguments: list[str]) -> None:
    """Bind this process to its parent, then become the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have died before the line above took effect: then nobody will ever tell.
    if os.getppid() != int(os.environ[PARENT]):
        sys.exit(EXIT_ORPHANED)
    # The supervisor waits for its signals with them blocked, and a mask outlives exec.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if arguments[0] != "--rank-log":
        os.environ[PARENT] = str(os.getpid())
    else:
        del os.environ[PARENT]
        arguments = arguments[1:]
        take_devices(int(os.environ["LOCAL_RANK"]), os.environ.pop(DEVICES, ""))
        path = os.path.join(os.environ["PHALANX_LAUNCH_DIR"], f"rank-{os.environ['RANK']}.log")  # noqa: PTH118 - light
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    os.execvp(arguments[0], arguments)  # noqa: S606 - becoming the program is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
