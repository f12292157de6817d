"""What a supervisor needs of a ledger; any `gang_ledgers.ledger.Ledger` will do.

Written down here because backends and ledgers don't import each other.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any, Protocol, cast

from gang_scheduler.gang import AttemptKey
from gang_scheduler.progress import Directive, Progress
from gang_scheduler.verdict import AttemptEnd


class AttemptLedger(Protocol):
    """The three calls of a supervisor; each may fail while the ledger can't be reached."""

    def start(self, key: AttemptKey, backend_ref: str) -> bool: ...

    def renew(self, key: AttemptKey, progress: Progress | None) -> Directive: ...

    def end_attempt(self, key: AttemptKey, end: AttemptEnd, result: Mapping[str, Any] | None = None) -> None: ...


def open_by_name(name: str) -> AttemptLedger:
    """Open a ledger by the `module:function` that opens it, so that none is named here."""
    return cast(AttemptLedger, pkgutil.resolve_name(name)())
