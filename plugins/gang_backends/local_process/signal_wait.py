"""Waits in which the supervisor hears its signals, so that none ever interrupts anything or is lost."""

from __future__ import annotations

import logging
import signal
import time

log = logging.getLogger(__name__)

TOLD_TO_GO = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
HEARD = {*TOLD_TO_GO, signal.SIGCHLD, signal.SIGIO}  # the last: news of an agent that is no child


def hold_back() -> None:
    """Keep the signals pending until a wait hears them; holds for threads started later, and over exec."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)


class SignalWait:
    """Sleeps of the main thread. `was_told_to_go` is true once a signal said that the supervisor is to end."""

    def __init__(self) -> None:
        self.was_told_to_go = False

    def sleep(self, seconds: float) -> None:
        """Sleep; the end of an agent wakes early. With 0, only hear what is pending."""
        end = time.monotonic() + seconds
        while True:
            heard = signal.sigtimedwait(HEARD, max(0.0, end - time.monotonic()))
            if heard is None:
                return
            if heard.si_signo in TOLD_TO_GO:
                log.info("got %s", signal.Signals(heard.si_signo).name)
                self.was_told_to_go = True
            if seconds > 0:
                return
