"""One thread per triggerer process looks after all gangs that its triggers wait for."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from gang_ledgers.ledger import GangRecord, HistoryRow
from gang_scheduler.gang_state import WAITS_FOR_CAPACITY
from operators.rank_zero import RankZeroLog

log = logging.getLogger(__name__)

EVERY_S = 1.0
LONGEST_BACK_OFF_S = 30.0
IDLE_S = 10.0
PLACES_EVERY_S = 30.0  # a place in line changes with everybody who comes or goes
PRINTED_AT_MOST = 20  # lines of rank 0 per look: a log is read by people


class Gangs(Protocol):
    """What the poller and the operators ask of the gang controller."""

    def tick(self) -> object: ...
    def states(self, gang_ids: Sequence[str]) -> dict[str, GangRecord]: ...
    def history(self, gang_id: str | None = None) -> list[HistoryRow]: ...
    def positions(self) -> dict[str, int]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Update:
    """What one look at a gang found; `notice` is said instead of the rest when the ledger could not be asked.

    `place` is where it stands among how many that wait; None if it does not, or nobody looked.
    """

    record: GangRecord | None = None
    rows: Sequence[HistoryRow] = ()
    printed: Sequence[str] = ()
    notice: str = ""
    place: tuple[int, int] | None = None


class Watch:
    """One trigger's wait for one gang; a context manager, and an endless stream of updates."""

    def __init__(self, poller: GangPoller, gang_id: str) -> None:
        self.gang_id = gang_id
        self._poller = poller
        self._loop = asyncio.get_running_loop()
        self._updates: asyncio.Queue[Update] = asyncio.Queue()
        self._shape: tuple[object, ...] = ()
        self._rank_log: RankZeroLog | None = None

    def __enter__(self) -> Self:
        self._poller.add(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._poller.remove(self)

    async def __aiter__(self) -> AsyncIterator[Update]:
        while True:
            yield await self._updates.get()

    def deliver(self, update: Update) -> None:
        """Hand an update over, from the poller's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._updates.put_nowait, update)

    def look(self, gangs: Gangs, record: GangRecord | None) -> Update:
        """What is new since the last look; the history is read only when more than progress has changed."""
        if record is None:
            return Update()
        shape = (record.submission, record.attempt, record.state, record.owner, record.wait_sentence, record.verdict)
        rows = gangs.history(self.gang_id) if shape != self._shape else ()
        printed = self._read_rank_log(record)
        self._shape = shape
        return Update(record, rows, printed)

    def _read_rank_log(self, record: GangRecord) -> Sequence[str]:
        if record.attempt < 1:
            return ()
        log_of = self._rank_log
        if log_of is None or (log_of.run_dir, log_of.attempt) != (record.run_dir, record.attempt):
            log_of = self._rank_log = RankZeroLog(record.run_dir, record.attempt)
        return log_of.read_new(PRINTED_AT_MOST)


class GangPoller:
    """Ticks the scheduler and looks at all watched gangs about once a second, off the event loop.

    The thread starts with the first watch and ends, connections closed, when nobody has watched for a while.
    A ledger that can't be asked is asked again with a growing pause; gangs go on by themselves meanwhile.
    """

    def __init__(self, open_gangs: Callable[[], Gangs], every_s: float = EVERY_S, idle_s: float = IDLE_S) -> None:
        self._open_gangs = open_gangs
        self._every_s = every_s
        self._idle_looks = max(1, round(idle_s / every_s))
        self._lock = threading.Lock()
        self._watches: list[Watch] = []
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._places_due_s = 0.0

    def add(self, watch: Watch) -> None:
        """Look after the watch's gang from now on."""
        with self._lock:
            self._watches.append(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gang-poller", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, watch: Watch) -> None:
        """Forget the watch."""
        with self._lock:
            self._watches.remove(watch)

    @property
    def is_running(self) -> bool:
        """True while the thread and its connections exist."""
        return self._thread is not None

    def _run(self) -> None:
        gangs: Gangs | None = None
        failures = idle_looks = 0
        while True:
            with self._lock:
                watches = list(self._watches)
                idle_looks = 0 if watches else idle_looks + 1
                if idle_looks > self._idle_looks:
                    self._thread = None
                    break
            pause_s = self._every_s
            if watches:
                try:
                    gangs = gangs or self._open_gangs()
                    self._look(gangs, watches, recovered_after=failures)
                    failures = 0
                except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
                    pause_s = min(self._every_s * 2**failures, LONGEST_BACK_OFF_S)
                    self._report_outage(error, watches, failures)
                    failures += 1
                    _close(gangs)
                    gangs = None
            self._wake.wait(pause_s)
            self._wake.clear()
        _close(gangs)

    def _look(self, gangs: Gangs, watches: Sequence[Watch], recovered_after: int) -> None:
        records = gangs.states(sorted({watch.gang_id for watch in watches}))
        if recovered_after:
            log.warning("The gang ledger answers again after %d failed looks.", recovered_after)
            for watch in watches:
                watch.deliver(Update(notice="The gang ledger answers again."))
        places = self._places(gangs, records.values())
        for watch in watches:
            place = places.get(watch.gang_id)
            update = watch.look(gangs, records.get(watch.gang_id))
            watch.deliver(update if place is None else replace(update, place=(place, len(places))))
        try:
            gangs.tick()
        except Exception:
            log.exception("The scheduler's tick failed; the next one is tried in %.0f s.", self._every_s)

    def _places(self, gangs: Gangs, records: Iterable[GangRecord]) -> dict[str, int]:
        """Where gangs stand in line, now and then, if any of these waits."""
        is_due = time.monotonic() >= self._places_due_s
        if not is_due or not any(record.state in WAITS_FOR_CAPACITY for record in records):
            return {}
        self._places_due_s = time.monotonic() + PLACES_EVERY_S
        try:
            return gangs.positions()
        except Exception as error:  # noqa: BLE001 - nothing hangs on it
            log.warning("The places in line can't be told: %s", error)
            return {}

    def _report_outage(self, error: Exception, watches: Sequence[Watch], failures: int) -> None:
        log.warning("The gang ledger can't be asked (look %d): %s", failures + 1, error)
        if failures == 0:
            notice = (
                f"The gang ledger can't be asked ({(str(error) or repr(error)).splitlines()[0]}); a running gang goes "
                f"on by itself. Asking again, at most every {LONGEST_BACK_OFF_S:.0f} s."
            )
            for watch in watches:
                watch.deliver(Update(notice=notice))


def _close(gangs: Gangs | None) -> None:
    if gangs is not None:
        try:
            gangs.close()
        except Exception:
            log.exception("Closing the gang ledger's connections failed.")


_shared: GangPoller | None = None
_shared_lock = threading.Lock()


def shared_poller(open_gangs: Callable[[], Gangs]) -> GangPoller:
    """This process's one poller."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = GangPoller(open_gangs)
        return _shared
