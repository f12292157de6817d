"""Renews the attempt's lease beside the main thread, which no hanging database may hold up."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from gang_backends.local_process.attempt_ledger import AttemptLedger
from gang_scheduler.gang import AttemptKey
from gang_scheduler.progress import Directive, Progress

log = logging.getLogger(__name__)
T = TypeVar("T")

RENEW_EVERY_S = 2.0
CALL_WITHIN_S = 8.0  # less than the ledger's lease of 15 s, so that a second call fits in
HANGING_AT_MOST = 3


class LedgerSilent(Exception):
    """The ledger didn't answer in time, or too many earlier calls still hang."""


class PatientLedger:
    """A ledger whose calls come back in time: one that hangs is left behind in its thread."""

    def __init__(self, open_ledger: Callable[[], AttemptLedger]) -> None:
        self._open = open_ledger
        self._ledger: AttemptLedger | None = None
        self._hanging: list[threading.Thread] = []

    def call(self, act: Callable[[AttemptLedger], T], within_s: float = CALL_WITHIN_S) -> T:
        """The outcome of `act`; raises what it raises, or LedgerSilent."""
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= HANGING_AT_MOST:
            raise LedgerSilent(f"{len(self._hanging)} earlier calls to the ledger still hang")
        answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                if self._ledger is None:
                    self._ledger = self._open()
                answers.put((act(self._ledger), None))
            except Exception as error:  # noqa: BLE001 - it is raised where the call was made
                answers.put((None, error))

        thread = threading.Thread(target=work, name="ledger-call", daemon=True)
        thread.start()
        try:
            answer, error = answers.get(timeout=within_s)
        except queue.Empty:
            self._hanging.append(thread)
            raise LedgerSilent(f"the ledger did not answer within {within_s:.0f} s") from None
        if error is not None:
            raise error
        return answer  # type: ignore[return-value] # without an error it is act's own


class LeaseKeeper:
    """Renews until closed. `directive` is what the ledger said last; while it can't be asked, that stands."""

    def __init__(self, ledger: PatientLedger, key: AttemptKey, every_s: float = RENEW_EVERY_S) -> None:
        self.progress: Progress | None = None
        self.directive = Directive.GO_ON
        self._ledger = ledger
        self._key = key
        self._every_s = every_s
        self._is_reachable = True
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing; a call under way is left to itself."""
        self._closed.set()

    def _renew(self, ledger: AttemptLedger) -> Directive:
        return ledger.renew(self._key, self.progress)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self.directive = self._ledger.call(self._renew)
            except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
                if self._is_reachable:
                    log.warning("the ledger can't be reached (%s); training goes on, asking again", short(error))
                self._is_reachable = False
            else:
                if not self._is_reachable:
                    log.warning("the ledger answers again")
                self._is_reachable = True
            self._closed.wait(self._every_s)


def short(error: Exception) -> str:
    """The first line: a database error goes on with SQL and addresses."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
