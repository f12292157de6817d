"""Runs a batch job (`python -m ...`) beside a task: its lines go to the task's log, its end is the task's end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airflow.sdk.exceptions import AirflowException, AirflowFailException

# What a job needs of this process's environment; nothing of Airflow's and no ledger credentials.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH", "VIRTUAL_ENV")
PASSED_ON_PREFIXES = ("SPARK_", "PYSPARK_", "OMP_")
PHALANX_PLACES = ("PHALANX_HOME", "PHALANX_DATA_DIR", "PHALANX_RUNS_DIR", "PHALANX_MODELS_DIR")

BAD_SPEC, BAD_DATA, PROGRAM_ERROR = 64, 65, 70
MEANING = {
    BAD_SPEC: "its arguments are wrong",
    BAD_DATA: "its data are bad",
    PROGRAM_ERROR: "it broke with a program error",
}
FINAL = frozenset({BAD_SPEC, BAD_DATA})  # the same input gives the same end: no retry can help
GRACE_S = 5.0
PR_SET_PDEATHSIG = 1


def job_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job, built from what it needs."""
    return {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or name in PHALANX_PLACES or name.startswith(PASSED_ON_PREFIXES)
    } | {"PYTHONUNBUFFERED": "1", "GX_ANALYTICS_ENABLED": "false"}


class JobProcess:
    """One job in a session of its own, which dies with the task.

    On Linux the kernel kills it when this process dies (Spark's JVM ends with its Python driver).
    """

    def __init__(self, arguments: Sequence[str], tell: Callable[[str], None], cwd: Path | None = None) -> None:
        self._arguments = list(arguments)
        self._tell = tell
        self._cwd = cwd
        self._process: subprocess.Popen[str] | None = None
        self._was_killed = False

    def run(self, may_fail: Sequence[int] = ()) -> int:
        """Run the job to its end and return its exit code: 0 or one of `may_fail`.

        Raises:
            AirflowFailException: it ended with 64 or 65: bad arguments or bad data, which no retry mends.
            AirflowException: it ended otherwise than with 0; the message holds its last lines.
        """
        last_lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self._arguments],
            cwd=self._cwd,
            env=job_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
        with self._process as process:  # closes the pipe
            assert process.stdout is not None
            for line in process.stdout:
                text = line.rstrip()
                self._tell(text)
                last_lines = [*last_lines[-14:], text]
            exit_code = process.wait()
        if exit_code != 0 and exit_code not in may_fail:
            self._raise(exit_code, last_lines)
        return exit_code

    def kill(self) -> None:
        """End the job and all that it started; safe to call from a signal handler and more than once."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self._was_killed = True
        deadline_s = time.monotonic() + GRACE_S
        _signal_group(process.pid, signal.SIGTERM)
        while process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.05)
        _signal_group(process.pid, signal.SIGKILL)

    def _raise(self, exit_code: int, last_lines: Sequence[str]) -> None:
        command = f"python -m {' '.join(self._arguments[:1])}"
        if self._was_killed:
            raise AirflowException(f"{command} was stopped, because its task was ended from outside.")
        how = (
            f"was killed by {signal.Signals(-exit_code).name}"
            if exit_code < 0
            else f"ended with exit code {exit_code}: {MEANING.get(exit_code, 'it failed')}"
        )
        said = next((line for line in reversed(last_lines) if line.strip()), "nothing")
        message = f"{command} {how}. Its last line: {said} (all of its lines are above)"
        raise (AirflowFailException if exit_code in FINAL else AirflowException)(message)


def _die_with_parent() -> Callable[[], None] | None:
    """For `preexec_fn`: have the kernel kill the child when this process ends, however it ends (Linux)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before the fork
    parent = os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return prepare


def _signal_group(pgid: int, sent: signal.Signals) -> None:
    try:
        os.killpg(pgid, sent)
    except (ProcessLookupError, PermissionError):
        return
