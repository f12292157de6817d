"""`phalanx down`: takes a running stack down, or what a killed launcher left of one."""

from __future__ import annotations

import signal
import time
from typing import Annotated, Any

import typer

from embedded_stack import home_lock
from embedded_stack.errors import StackError
from embedded_stack.launcher import home_of
from embedded_stack.stack_record import StackRecord, StackState
from embedded_stack.state_folder import StateFolder, read_json
from embedded_stack.taking_down import STOP_LIMIT_S, take_down_lost
from phalanx_cli.output import Home, Json, fail, print_json, say, teller

GRACE = Annotated[float, typer.Option("--grace", help="Seconds that gangs may take to commit a checkpoint.", min=0)]
STARTING_LIMIT_S = 60.0


def down(
    home: Home = None,
    purge: Annotated[bool, typer.Option("--purge", help="Remove the state folder afterwards, data included.")] = False,
    grace: GRACE = 180.0,
    as_json: Json = False,
) -> None:
    """Stop Airflow, let gangs commit a checkpoint, stop PostgreSQL. The next `up` resumes."""
    folder = home_of(home)
    try:
        answer = _down(folder, purge, grace, as_json)
    except StackError as error:
        fail(error, as_json)
    if as_json:
        print_json(answer)


def _down(folder: StateFolder, purge: bool, grace_s: float, as_json: bool) -> dict[str, Any]:
    tell = teller(as_json)
    answer: dict[str, Any] = {"home": str(folder.home), "was": StackState.DOWN.value, "purged": False}
    if not folder.is_ours:
        if folder.home.exists() and purge:
            folder.remove()  # says why it does not
        tell(f"no stack was ever started in {folder.home}")
        return answer
    record = StackRecord.read(folder.stack)
    answer["was"] = record.state.value
    if record.launcher is not None and record.state not in (StackState.DOWN, StackState.LOST):
        tell(f"stopping the stack of pid {record.launcher.pid}")
        record.launcher.send(signal.SIGTERM)
        # The launcher bounds its own way down; what it takes longer is a fault of its own.
        limit_s = sum(STOP_LIMIT_S.values()) + grace_s + STARTING_LIMIT_S
        deadline = time.monotonic() + limit_s
        while record.launcher.is_alive:
            if time.monotonic() > deadline:
                raise StackError(
                    f"the launcher (pid {record.launcher.pid}) is not down after {limit_s:.0f} s. Look at its output "
                    f"and at {folder.logs}; `kill -9 {record.launcher.pid}` and `phalanx down` again end it by force."
                )
            time.sleep(0.1)
    with home_lock.held(folder, wait_s=5.0):
        if StackRecord.read(folder.stack).state is StackState.LOST or read_json(folder.stack) is None:
            take_down_lost(folder, tell, grace_s)
        if purge:
            _purge(folder, tell)
            answer["purged"] = True
    if not as_json:
        say("down" if not purge else f"down, and {folder.home} is removed")
    return answer


def _purge(folder: StateFolder, tell: Any) -> None:
    known = read_json(folder.database) or {}
    folder.remove()
    if known.get("kind") == "url":
        tell(f"the databases 'airflow' and 'phalanx' on {known['host']}:{known['port']} stay; drop them there")
