"""Turns into a program that is told when its parent dies: `owned_exec.py PARENT SIGNAL UID:GID CAPABLE PROGRAM ...`.

Run by path with `python -I -S`, so it must need nothing but the standard library. `UID:GID` may be `-` to stay who one
is; `CAPABLE` is `yes` to keep the capability to pass folders that the new user may not enter.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 47, 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522
EXIT_ORPHANED = 137

libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int, argument2: int = 0) -> None:
    """The system call, with its failure raised."""
    if libc.prctl(option, argument, argument2, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {argument}) failed")


def become(uid: int, gid: int, *, is_capable: bool) -> None:
    """Change the user for good, keeping one capability if `is_capable`."""
    if is_capable:
        prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if is_capable:
        bit = 1 << CAP_DAC_OVERRIDE
        header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
        # (effective, permitted, inheritable) for capabilities 0-31, then for 32-63
        sets = struct.pack("6I", bit, bit, bit, 0, 0, 0)
        if libc.capset(header, sets) != 0:
            raise OSError(ctypes.get_errno(), "capset failed")
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE)


def main(parent: str, sent: str, owner: str, capable: str, *program: str) -> None:
    """Prepare this process and become the program."""
    if owner != "-":
        uid, gid = owner.split(":")
        become(int(uid), int(gid), is_capable=capable == "yes")
    # After the change of user, which clears it.
    prctl(PR_SET_PDEATHSIG, int(sent))
    # The parent may have died before the line above took effect: then nobody will ever tell.
    if os.getppid() != int(parent):
        sys.exit(EXIT_ORPHANED)
    # The stack's own handlers are gone with exec, ignored signals and the mask are not.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execv(program[0], program)  # noqa: S606 - becoming the program is the purpose


if __name__ == "__main__":
    main(*sys.argv[1:])
