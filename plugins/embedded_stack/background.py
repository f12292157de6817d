"""A stack in the background: a launcher of its own session, and the wait until it is up."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from embedded_stack.errors import StackError
from embedded_stack.launcher import Options
from embedded_stack.processes import ProcessIdentity
from embedded_stack.stack_record import StackRecord, StackState
from embedded_stack.state_folder import StateFolder
from embedded_stack.taking_down import Say

# The launcher bounds each of its own steps; this bounds what it does not, a first start on a slow disk included.
LIMIT_S = 600.0


def start(folder: StateFolder, options: Options, say: Say) -> str:
    """Start a launcher that outlives this process; returns the UI's address when all parts are healthy.

    Raises:
        StackError: it ended before it was up; the message is its own.
    """
    folder.prepare()
    log = folder.logs / "up.log"
    command = [
        *(sys.executable, "-m", "embedded_stack.background_launcher", "--home", str(folder.home)),
        *("--port", str(options.port), "--dags", str(options.folders.dags), "--plugins", str(options.folders.plugins)),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PHALANX_DATABASE_URL"}
    with log.open("ab") as output:
        begin = output.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder.home,
            start_new_session=True,
            text=True,
        )
    # Not as an argument or a variable: the URL holds a credential, and those are open to others.
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(options.database_url)
    launcher = ProcessIdentity.of(process.pid)
    deadline = time.monotonic() + LIMIT_S
    with log.open() as said:
        said.seek(begin)
        while True:
            exit_code = process.poll()
            lines = said.read().splitlines()
            if exit_code is not None:
                raise StackError(
                    "\n".join([*lines, said.read()]).strip() or f"the launcher ended with exit code {exit_code}"
                )
            for line in lines:
                say(line)
            record = StackRecord.read(folder.stack)
            if record.state is StackState.UP and record.launcher == launcher:
                return record.address
            if time.monotonic() > deadline:
                process.terminate()
                raise StackError(
                    f"the stack is not up after {LIMIT_S:.0f} s; it is being stopped. Its lines are in {log}"
                )
            time.sleep(0.1)
