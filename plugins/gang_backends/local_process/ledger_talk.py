"""The first and the last word between a supervisor and the ledger, asked for again while it can't be reached."""

from __future__ import annotations

import contextlib
import logging

import tenacity

from gang_backends.local_process.attempt_ledger import AttemptLedger
from gang_backends.local_process.launch_folder import Ended
from gang_backends.local_process.lease_keeper import PatientLedger, short
from gang_backends.local_process.signal_wait import SignalWait
from gang_scheduler.gang import AttemptKey
from gang_scheduler.progress import Progress

log = logging.getLogger(__name__)

CONFIRM_WITHIN_S = 20.0  # a launch that the ledger doesn't confirm in time lapses anyway
TELL_WITHIN_S = 600.0  # afterwards whoever probes the attempt reads end.json
TELL_WHEN_TOLD_TO_GO_S = 20.0  # the host goes down, and perhaps the ledger with it


def why_not_run(ledger: PatientLedger, key: AttemptKey, ref: str, wait: SignalWait) -> str:
    """Ask the ledger whether the attempt is to run; empty if it says so, and nothing else does."""
    try:
        may_run = _asking(wait, CONFIRM_WITHIN_S, 0.0)(ledger.call, lambda it: it.start(key, ref))
    except Exception as error:  # noqa: BLE001 - without a yes nothing may run
        return f"the ledger did not confirm the launch ({short(error)})"
    wait.sleep(0)
    if wait.was_told_to_go:
        return "the supervisor was told to end before it started anything"
    return "" if may_run else "the ledger says that this attempt is not to run (any more)"


def tell_end(ledger: PatientLedger, key: AttemptKey, ended: Ended, progress: Progress | None, wait: SignalWait) -> bool:
    """Tell the ledger how the attempt ended; False if it couldn't be told in the time there is."""

    def tell(it: AttemptLedger) -> None:
        if progress is not None:  # of an attempt that was over before a renewal could tell of its progress
            with contextlib.suppress(Exception):  # the end matters more
                it.renew(key, progress)
        it.end_attempt(key, ended.end, ended.result)

    try:
        _asking(wait, TELL_WITHIN_S, TELL_WHEN_TOLD_TO_GO_S)(ledger.call, tell)
    except Exception as error:  # noqa: BLE001 - whatever it is, end.json says the end to whoever probes the attempt
        log.error("the ledger was not told of the end: %s", short(error))
        return False
    log.info("the ledger knows of the end")
    return True


def _asking(wait: SignalWait, within_s: float, when_told_to_go_s: float) -> tenacity.Retrying:
    """Repeats a call until it doesn't raise, for a time that shrinks once a signal came."""

    def is_over(state: tenacity.RetryCallState) -> bool:
        return (state.seconds_since_start or 0.0) > (when_told_to_go_s if wait.was_told_to_go else within_s)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(Exception),
        stop=is_over,
        wait=tenacity.wait_exponential(0.5, max=5),
        sleep=wait.sleep,
        before_sleep=_log_first_failure,
        reraise=True,
    )


def _log_first_failure(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if state.attempt_number == 1 and isinstance(error, Exception):
        log.warning("the ledger can't be reached (%s); asking again", short(error))
