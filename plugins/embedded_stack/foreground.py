"""A stack in the foreground: up, watched until somebody asks it to stop or its work is done, and down whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from embedded_stack import home_lock
from embedded_stack.launcher import Launcher, Options, StopAsked
from embedded_stack.state_folder import StateFolder
from embedded_stack.taking_down import Say

WATCH_EVERY_S = 0.25

# Runs beside the stack in a thread of its own: it must not start processes, and must end when the event is set.
Work = Callable[[Launcher, threading.Event], None]


@dataclass(frozen=True, slots=True)
class Session:
    """What to do with the stack once it is up; `ends_with_work` takes it down when the work is done."""

    on_up: Callable[[Launcher], None]
    work: Work | None = None
    ends_with_work: bool = False
    gang_grace_s: float = 180.0


def serve(folder: StateFolder, options: Options, session: Session, say: Say) -> bool:
    """Bring the stack up, do the session's work, stay until asked to stop, take it down.

    Returns:
        True if it was up; False if it was asked to stop while it came up.

    Raises:
        StackError: it did not come up, or the work failed; everything is stopped again.
    """
    folder.prepare()
    with home_lock.held(folder):
        launcher = Launcher(folder, options, say)
        with _stopped_by_signals(launcher):
            try:
                launcher.bring_up()
                session.on_up(launcher)
                _watch(launcher, session)
            except StopAsked:
                return False
            finally:
                launcher.take_down(session.gang_grace_s)
        return True


def _watch(launcher: Launcher, session: Session) -> None:
    failures: list[BaseException] = []
    worker: threading.Thread | None = None
    if session.work is not None:
        worker = threading.Thread(target=_work, args=(session.work, launcher, failures), name="work", daemon=True)
        worker.start()
    while not launcher.stop.wait(WATCH_EVERY_S):
        launcher.watch()
        if worker is not None and not worker.is_alive() and (failures or session.ends_with_work):
            break
    launcher.stop.set()
    if worker is not None:
        worker.join(10)
    if failures:
        raise failures[0]


def _work(work: Work, launcher: Launcher, failures: list[BaseException]) -> None:
    try:
        work(launcher, launcher.stop)
    except BaseException as failure:  # noqa: BLE001 - raised again in the main thread
        failures.append(failure)


@contextmanager
def _stopped_by_signals(launcher: Launcher) -> Iterator[None]:
    def ask(_signal: int, _frame: object) -> None:
        launcher.stop.set()

    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
