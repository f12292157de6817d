"""The controller: what tasks, triggers, the command line and pages call; no daemon, whoever waits ticks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from gang_backends.backend import Backend, Liveness
from gang_controller.gc_pause import paused_gc
from gang_controller.outbox import carry_out
from gang_ledgers.ledger import (
    Claim,
    Directive,
    GangRecord,
    HistoryRow,
    Ledger,
    NodeCondition,
    Progress,
    RequestRefused,
    StaleSnapshot,
    Submitted,
)
from gang_scheduler.actions import Action
from gang_scheduler.admission import why_never
from gang_scheduler.forecast import DryRun, Forecast, dry_run, forecast, positions
from gang_scheduler.gang import AttemptKey, GangRequest
from gang_scheduler.gang_state import ENDED, HOLDS_CAPACITY
from gang_scheduler.plan import fate, plan
from gang_scheduler.snapshot import Snapshot
from gang_scheduler.verdict import AttemptEnd
from pool_settings import Settings, SettingsInvalid

# How long what has ended is told of: long enough to compare quarters.
KEPT_FOR = timedelta(days=90)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick did; `had_lock` is false if another process was ticking, which is as good."""

    had_lock: bool = False
    was_stale: bool = False
    actions: tuple[Action, ...] = ()
    carried_out: int = 0


@dataclass(frozen=True, slots=True)
class HostInterruption:
    """What came of asking every attempt on this host to stop."""

    asked: tuple[AttemptKey, ...]
    still_running: tuple[AttemptKey, ...]

    @property
    def is_complete(self) -> bool:
        """True if nothing that was asked still runs."""
        return not self.still_running


class GangController:
    """One per process is enough; every method may be called from any thread."""

    def __init__(
        self,
        ledger: Ledger,
        backends: Mapping[str, Backend],
        *,
        host_id: str,
        settings: Callable[[], Settings] = Settings,
    ) -> None:
        """Serve the pools in `backends`; acts of the outbox are carried out if they are for `host_id`.

        `settings` is asked anew at every decision. While it raises SettingsInvalid nothing is admitted and nobody makes
        room for others, by rules that nobody wrote; gangs end, are recovered and stop all the same.
        """
        self._ledger = ledger
        self._backends = backends
        self._host_id = host_id
        self._settings = settings
        self._said_of_settings = ""
        self._ticking = threading.Lock()

    def close(self) -> None:
        """Close the ledger's connections."""
        self._ledger.close()

    # --- people and tasks who ask

    def submit(self, request: GangRequest, claim: Claim) -> Submitted:
        """Ask for a gang; asking twice is asking once.

        Raises:
            RequestRefused: its DAG may not ask for this, the queue or pool is unknown, or the gang would not fit
                into the pool even if it were empty.
            SettingsInvalid: the settings file can't be used.
        """
        known = self._ledger.state(request.gang_id)
        if known is None or known.state in ENDED:
            settings = self._settings()
            reason = settings.refusal(request) or why_never(request, settings.enrich(self._ledger.nodes()))
            if reason:
                raise RequestRefused(reason)
        return self._ledger.submit(request, claim)

    def priority(self, asked: int | str) -> int:
        """The number of a priority that is given as one, or by the name of its class.

        Raises:
            RequestRefused: there is no such class.
        """
        try:
            return self._settings().priority(asked)
        except LookupError as error:
            raise RequestRefused(str(error.args[0])) from None

    def release(self, gang_id: str, owner: str | None, who: str, why: str) -> bool:
        """Ask the gang to stop with a checkpoint and rest; False if `owner` is no longer its owner.

        Ticks once, because whoever releases is often the last one to watch the gang.
        """
        is_released = self._ledger.release(gang_id, owner, who, why)
        if is_released:
            try:
                self.tick()
            except Exception:  # the release is committed; the next tick of anyone acts on it
                log.warning("the tick after the release of gang '%s' failed", gang_id, exc_info=True)
        return is_released

    def hold(self, gang_id: str, who: str, why: str) -> GangRecord:
        """Keep the gang from being admitted until `lift_hold`; raises UnknownGang, GangHasEnded."""
        return self._ledger.hold(gang_id, who, why)

    def lift_hold(self, gang_id: str, who: str, why: str) -> GangRecord:
        """Let a held gang be admitted again; raises UnknownGang, GangHasEnded."""
        return self._ledger.lift_hold(gang_id, who, why)

    def requeue(self, gang_id: str, who: str, why: str) -> GangRecord:
        """Stop the gang's attempt with a checkpoint and queue it again; raises UnknownGang, GangHasEnded."""
        return self._ledger.requeue(gang_id, who, why)

    def set_condition(self, condition: NodeCondition) -> bool:
        """Say something of a node, or say it no more; False if it was so already. Raises UnknownNode."""
        return self._ledger.set_condition(condition)

    def prune(self, keep: timedelta = KEPT_FOR) -> int:
        """Forget what ended longer ago than that; returns how many rows were removed."""
        return self._ledger.prune(keep)

    # --- looking

    def state(self, gang_id: str) -> GangRecord | None:
        """The newest submission of the gang; None if it was never asked for."""
        return self._ledger.state(gang_id)

    def states(self, gang_ids: Sequence[str]) -> dict[str, GangRecord]:
        """The newest submission of each known gang, in one query."""
        return self._ledger.states(gang_ids)

    def gang(self, gang_id: str) -> list[GangRecord]:
        """All submissions of the gang, oldest first."""
        return self._ledger.submissions(gang_id)

    def list_gangs(self, *, live_only: bool = False, limit: int = 200) -> list[GangRecord]:
        """Newest submissions first."""
        return self._ledger.list_gangs(live_only=live_only, limit=limit)

    def history(self, gang_id: str | None = None) -> list[HistoryRow]:
        """What happened, oldest first."""
        return self._ledger.history(gang_id)

    def outlook(self) -> Snapshot:
        """This moment as the plan would see it: for forecasts and dry runs.

        Raises:
            SettingsInvalid: the settings file can't be used.
        """
        settings = self._settings()
        return settings.apply(self._ledger.snapshot(settings.policy.usage_half_life))

    def forecast(self, gang_ids: Collection[str]) -> dict[str, Forecast]:
        """When each of the gangs that wait is expected to start; those that don't wait are left out."""
        return forecast(self.outlook(), gang_ids)

    def positions(self) -> dict[str, int]:
        """The place of each gang among all that wait (1 is next)."""
        return positions(self.outlook())

    def dry_run(self, request: GangRequest) -> DryRun:
        """What would become of the request if it were asked for now: never, now or when; nothing is written."""
        settings, snapshot = self._settings(), self.outlook()
        refused = settings.refusal(request)
        return DryRun(refused, None, refused, None) if refused else dry_run(request, snapshot)

    # --- the tick

    def tick(self) -> Tick:
        """Plan and commit if nobody else does at this moment, then carry out what is to be done on this host."""
        if not self._ledger.has_work() or not self._ticking.acquire(blocking=False):
            return Tick()
        try:
            planned = self._plan_and_commit()
            return replace(planned, carried_out=self._carry_out())
        finally:
            self._ticking.release()

    def _plan_and_commit(self) -> Tick:
        with self._ledger.tick_lock() as has_lock:
            if not has_lock:
                return Tick()
            settings = self._usable_settings()
            snapshot = self._ledger.snapshot((settings or Settings()).policy.usage_half_life)
            with paused_gc():
                actions = plan(settings.apply(snapshot)) if settings else _fates(snapshot)
                try:
                    if actions:
                        self._ledger.commit(actions, snapshot.version)
                except StaleSnapshot:
                    return Tick(had_lock=True, was_stale=True)
            return Tick(had_lock=True, actions=actions)

    def _usable_settings(self) -> Settings | None:
        try:
            settings = self._settings()
        except SettingsInvalid as error:
            if self._said_of_settings != str(error):  # once, not every second
                log.error("no gang is admitted until the settings are put right:\n%s", error)
                self._said_of_settings = str(error)
            return None
        self._said_of_settings = ""
        return settings

    def _carry_out(self) -> int:
        items = self._ledger.claim_outbox(self._host_id)
        for item in items:
            carry_out(item, self._ledger, self._backends)
        return len(items)

    # --- this host

    def open_host(self) -> None:
        """Let gangs start on this host again; `phalanx up` calls it, since `interrupt_host` had closed it."""
        self._ledger.open_host(self._host_id)

    def interrupt_host(self, grace_s: float, why: str = "the host is going down") -> HostInterruption:
        """Stop every attempt on this host with a checkpoint, without releasing it: the gangs are queued again.

        The host's nodes are cordoned until `open_host`. Returns when all have ended or `grace_s` is over.
        """
        asked = tuple(self._ledger.close_host(self._host_id, why))
        deadline = time.monotonic() + grace_s
        while True:
            self.tick()
            running = self._still_running(asked)
            if not running or time.monotonic() >= deadline:
                return HostInterruption(asked, running)
            time.sleep(0.2)

    def _still_running(self, keys: Sequence[AttemptKey]) -> tuple[AttemptKey, ...]:
        live = {
            AttemptKey(record.gang_id, record.submission, record.attempt)
            for record in self._ledger.list_gangs(live_only=True, limit=10_000)
            if record.state in HOLDS_CAPACITY
        }
        # A supervisor that has just told of the end still holds a connection to the ledger.
        return tuple(key for key in keys if key in live or self._is_supervised(key))

    def _is_supervised(self, key: AttemptKey) -> bool:
        for record in self._ledger.submissions(key.gang_id):
            backend = self._backends.get(record.request.gang_pool)
            if record.submission == key.submission and backend is not None:
                return backend.state("", record.run_dir, key).liveness is Liveness.ALIVE
        return False

    # --- the supervisor of one attempt

    def start(self, key: AttemptKey, backend_ref: str) -> bool:
        """True if the attempt may run: it is the current one, admitted, and nobody asked it to stop."""
        return self._ledger.start(key, backend_ref)

    def renew(self, key: AttemptKey, progress: Progress | None) -> Directive:
        """Renew the attempt's lease and hand in its progress."""
        return self._ledger.renew(key, progress)

    def end_attempt(self, key: AttemptKey, end: AttemptEnd, result: Mapping[str, Any] | None = None) -> None:
        """Record that the attempt is over."""
        self._ledger.end_attempt(key, end, result)


def _fates(snapshot: Snapshot) -> tuple[Action, ...]:
    """What must happen to each gang whatever the settings say."""
    left = {(node.pool, node.node): node for node in snapshot.nodes if node.is_to_be_left}
    fates = (fate(view, snapshot, left) for view in snapshot.gangs)
    return tuple(action for action in fates if action is not None)
