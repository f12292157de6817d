"""The program that Airflow's parts are forked from: it imports what they share once, instead of each of them.

Importing Airflow costs about three CPU-seconds a process, most of what a part needs to start. It serves one launcher
over a socket, one JSON object a line: `{"arguments": [...], "log": PATH, "stop_signal": N}` in, `{"pid": N}` out, and
`{"ended": PID, "code": N}` whenever one has ended. It has one thread, so that forking is safe.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from embedded_stack.owned_exec import EXIT_ORPHANED, PR_SET_PDEATHSIG, prctl

# What every part and the migration import, and nothing that opens a connection or starts a thread.
SHARED = (
    "airflow.__main__",
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.executors.local_executor",
)
# While they start, the parts go on to make objects that stay; the default of 700 has them searched all the time.
GC_THRESHOLD = (20_000, 20, 50)


def main(socket_number: str) -> None:
    """Import, say so, and fork on request until the launcher closes the socket."""
    connection = socket.socket(fileno=int(socket_number))
    connection.set_inheritable(False)
    gc.disable()  # imports make little garbage; looking for it takes a good part of their time
    for module in SHARED:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is here now will be shared by all
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()
    # A pipe that a signal handler writes to wakes `select` when a child ends.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    _send(connection, {"ready": True, "threads": len(list(Path("/proc/self/task").iterdir()))})
    received = b""
    while True:
        readable, _, _ = select.select([connection.fileno(), wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
        for ended, status in _ended():
            _send(connection, {"ended": ended, "code": os.waitstatus_to_exitcode(status)})
        if connection.fileno() in readable:
            block = connection.recv(65536)
            if not block:
                return
            *lines, received = (received + block).split(b"\n")
            for line in lines:
                _send(connection, {"pid": _fork(json.loads(line), connection, (wake_read, wake_write))})


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _ended() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def _fork(order: dict[str, Any], connection: socket.socket, pipe: tuple[int, int]) -> int:
    nursery = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection.close()
            for end in pipe:
                os.close(end)
            os.setsid()
            prctl(PR_SET_PDEATHSIG, int(order["stop_signal"]))
            if os.getppid() != nursery:  # it died before the kernel knew
                os._exit(EXIT_ORPHANED)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
        except BaseException:  # noqa: BLE001 - this copy must not go on as a second nursery
            traceback.print_exc()
            os._exit(1)
        _become_airflow(order["arguments"])
    return pid


def _become_airflow(arguments: list[str]) -> NoReturn:
    """Run `airflow ARGUMENTS` in this process, and end as an interpreter ends."""
    from airflow.__main__ import main as airflow
    from setproctitle import setproctitle

    code = 0
    try:
        setproctitle(f"airflow {' '.join(arguments)}")
        sys.argv = ["airflow", *arguments]
        airflow()
    except SystemExit as asked:
        if isinstance(asked.code, str):
            print(asked.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except BaseException:  # noqa: BLE001 - the interpreter's own last resort
        traceback.print_exc()
        code = 1
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1])
