"""Signal numbers and exit codes in words; Linux's numbers, since the core may not ask the machine."""

from __future__ import annotations

_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU",
}  # fmt: skip


def signal_of(exit_code: int | None) -> int | None:
    """The signal that ended a process: -9 and 137 both mean signal 9; None if it ended by itself."""
    if exit_code is None or 0 <= exit_code <= 128:
        return None
    return -exit_code if exit_code < 0 else exit_code - 128


def name_of_end(exit_code: int) -> str:
    """E.g. `killed by SIGKILL`, or `ended with exit code 1`."""
    number = signal_of(exit_code)
    if number is None:
        return f"ended with exit code {exit_code}"
    return f"killed by {_NAMES.get(number, f'signal {number}')}"
