"""How commands that read the ledger's database meet trouble."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from embedded_stack.errors import StackError
from gang_controller.wiring import NotWired
from gang_ledgers.ledger import LedgerError
from model_registry.registry import RegistryError
from phalanx_cli.output import fail


@contextmanager
def reading(as_json: bool) -> Iterator[None]:
    """Report what is wrong with the request, the state folder or the database, and exit with 1."""
    try:
        yield
    except (LookupError, NotWired, LedgerError, RegistryError, StackError) as error:
        fail(error, as_json)
    except DBAPIError as error:
        cause = str(error.orig).strip() or type(error.orig).__name__
        fail(StackError(f"the ledger's database does not answer: {cause}. Is the stack up? `phalanx status`"), as_json)
