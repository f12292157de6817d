"""What the stack asks of the gangs: to stop with a checkpoint when it goes down, to start again when it comes up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from embedded_stack.errors import StackError
from gang_controller.wiring import NotWired, open_controller
from gang_ledgers.ledger import LedgerError

GRACE_S = 180.0


def let_start(home: Path) -> None:
    """Make the ledger's tables if need be, and open this host for gangs again; queued ones start with the next tick.

    Raises:
        StackError: the ledger does not let itself be opened.
    """
    try:
        with closing(open_controller(home)) as controller:
            controller.open_host()
    except (LedgerError, NotWired, SQLAlchemyError) as error:
        raise StackError(f"the ledger of {home} can't be opened: {error}") from error


def interrupt(home: Path, grace_s: float = GRACE_S) -> tuple[Sequence[str], Sequence[str]]:
    """Stop this host's gangs with a checkpoint; they are queued again for the next `phalanx up`.

    Returns:
        What was asked to stop, and what of it still runs after `grace_s`.
    """
    with closing(open_controller(home)) as controller:
        done = controller.interrupt_host(grace_s, why="the embedded stack is going down")
    return [str(key) for key in done.asked], [str(key) for key in done.still_running]
