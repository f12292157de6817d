"""Fakes with state: a backend whose attempts live in this process, and end when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gang_backends.backend import AttemptState, BackendError, LaunchOrder, Liveness
from gang_ledgers.ledger import Directive, Ledger, Progress
from gang_scheduler.gang import AttemptKey
from gang_scheduler.verdict import AttemptEnd, Cause, RankOutcome


@dataclass
class FakeAttempt:
    """One launched attempt and its supervisor, which works only in `live`."""

    order: LaunchOrder
    ref: str
    is_confirmed: bool = False
    is_over: bool = False
    is_supervisor_dead: bool = False
    is_asked_to_stop: bool = False
    step: int = 0
    committed: int | None = None
    end: AttemptEnd | None = None
    result: Mapping[str, Any] | None = None


@dataclass
class FakeBackend:
    """A host: launching twice gives the same attempt; what runs is known whatever the ledger believes.

    `most_at_once` is the largest number of attempts of one gang that were ever live together: the truth that
    fencing is there for.
    """

    ledger: Ledger
    attempts: dict[AttemptKey, FakeAttempt] = field(default_factory=dict)
    launch_fails: list[Exception] = field(default_factory=list)
    is_reachable: bool = True
    most_at_once: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # --- the contract

    def launch(self, order: LaunchOrder, env: Mapping[str, str]) -> str:  # noqa: ARG002
        with self._lock:
            if order.key not in self.attempts:
                if self.launch_fails:
                    raise self.launch_fails.pop(0)
                self.attempts[order.key] = FakeAttempt(order, f"fake {order.key}")
            return self.attempts[order.key].ref

    def state(self, ref: str, run_dir: str, key: AttemptKey) -> AttemptState:  # noqa: ARG002
        with self._lock:
            attempt = self.attempts.get(key)
            if not self.is_reachable:
                return AttemptState(Liveness.UNKNOWN, "the host does not answer")
            if attempt is None:
                return AttemptState(Liveness.DEAD, "nothing of it was ever started", _lost("nothing was started"))
            if attempt.is_supervisor_dead or attempt.is_over:
                attempt.is_over = True
                end = attempt.end or _lost("its supervisor's pid is gone", attempt)
                return AttemptState(Liveness.DEAD, end.proof, end, attempt.result)
            return AttemptState(Liveness.ALIVE, "its supervisor runs")

    def stop(self, ref: str, run_dir: str, key: AttemptKey, grace: timedelta) -> None:  # noqa: ARG002
        with self._lock:
            if key in self.attempts:
                self.attempts[key].is_asked_to_stop = True

    # --- what the host does by itself

    def live(self) -> list[AttemptKey]:
        """Let every supervisor do a round: confirm, make steps, renew, stop when told; what runs is returned."""
        with self._lock:
            for key, attempt in list(self.attempts.items()):
                if not attempt.is_over and not attempt.is_supervisor_dead:
                    self._round(key, attempt)
            return self.running()

    def running(self) -> list[AttemptKey]:
        """What has been confirmed and has not ended."""
        return [key for key, attempt in self.attempts.items() if attempt.is_confirmed and not attempt.is_over]

    def _round(self, key: AttemptKey, attempt: FakeAttempt) -> None:
        if not attempt.is_confirmed:
            attempt.is_confirmed = self.ledger.start(key, attempt.ref)
            attempt.is_over = not attempt.is_confirmed
            same_gang = [other for other in self.running() if other.gang_id == key.gang_id]
            self.most_at_once = max(self.most_at_once, len(same_gang))
            return
        attempt.step += 10
        attempt.committed = attempt.step - 5
        directive = self.ledger.renew(
            key, Progress(step=attempt.step, claimed_attempt=key.attempt, last_committed_step=attempt.committed)
        )
        if directive is Directive.SUPERSEDED:
            attempt.is_over = True
        elif directive is Directive.STOP or attempt.is_asked_to_stop:
            self.finish(key, 75, was_asked_to_stop=True)

    def finish(
        self,
        key: AttemptKey,
        rank_code: int,
        *,
        result: Mapping[str, Any] | None = None,
        was_asked_to_stop: bool = False,
    ) -> None:
        """The ranks end with that code, and the supervisor tells the ledger."""
        with self._lock:
            attempt = self.attempts[key]
            end = AttemptEnd(
                0 if rank_code == 0 else 1,
                (RankOutcome(0, rank_code, "" if rank_code in (0, 75) or rank_code < 0 else "Error"),),
                was_asked_to_stop=was_asked_to_stop,
                last_step=attempt.step,
                last_committed_step=attempt.committed,
                proof="the supervisor saw the agent exit",
            )
            attempt.is_over, attempt.end, attempt.result = True, end, result
            self.ledger.end_attempt(key, end, result)

    def kill_supervisor(self, key: AttemptKey) -> None:
        """The supervisor is gone without a word, and its ranks with it."""
        self.attempts[key].is_supervisor_dead = True
        self.attempts[key].is_over = True


def _lost(proof: str, attempt: FakeAttempt | None = None) -> AttemptEnd:
    return AttemptEnd(
        None,
        forced_cause=Cause.SUPERVISOR_LOST,
        proof=proof,
        last_step=attempt.step if attempt else None,
        last_committed_step=attempt.committed if attempt else None,
    )


def a_launch_error() -> BackendError:
    """A launch that did not come about."""
    return BackendError("no space left for the run folder")
