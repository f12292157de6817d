"""Steps of a gang's life in a ledger, by the calls that the controller and a supervisor make."""

from __future__ import annotations

import time
from collections.abc import Callable

from gang_ledgers.ledger import Ledger, OutboxItem, Progress, StaleSnapshot
from gang_scheduler.actions import Action
from gang_scheduler.gang import AttemptKey, GangRequest
from gang_scheduler.plan import plan
from gang_scheduler.verdict import AttemptEnd, RankOutcome
from tests.builders import HOST, a_claim

DONE = AttemptEnd(0, (RankOutcome(0, 0), RankOutcome(1, 0)), last_step=100, last_committed_step=100)
KILLED = AttemptEnd(1, (RankOutcome(1, -9),), last_step=57, last_committed_step=50)
FAILED = AttemptEnd(1, (RankOutcome(0, 70, "ValueError", "nan"),), last_step=57, last_committed_step=50)
STOPPED = AttemptEnd(1, (RankOutcome(0, 75),), was_asked_to_stop=True, last_step=60, last_committed_step=60)


def tick(ledger: Ledger) -> tuple[Action, ...]:
    """Plan and commit, again if somebody changed the ledger in between."""
    while True:
        snapshot = ledger.snapshot()
        actions = plan(snapshot)
        try:
            if actions:
                ledger.commit(actions, snapshot.version)
            return actions
        except StaleSnapshot:
            continue


def launch(ledger: Ledger, host_id: str = HOST) -> list[OutboxItem]:
    """Carry out what lies in the outbox for the host, as a backend that always succeeds."""
    items = ledger.claim_outbox(host_id)
    for item in items:
        ledger.finish_outbox(item.number, backend_ref=ref(item.key))
    return items


def ref(key: AttemptKey) -> str:
    """The ref of an attempt's supervisor."""
    return f"supervisor of {key}"


def running(ledger: Ledger, request: GangRequest, *, step: int = 10, host_id: str = HOST) -> AttemptKey:
    """Submit (or take up) the gang and bring its next attempt to RUNNING."""
    if ledger.state(request.gang_id) is None:
        ledger.submit(request, a_claim())
    tick(ledger)
    launch(ledger, host_id)
    record = ledger.state(request.gang_id)
    assert record is not None
    key = AttemptKey(record.gang_id, record.submission, record.attempt)
    assert ledger.start(key, ref(key)), record
    ledger.renew(key, Progress(step=step, claimed_attempt=key.attempt))
    return key


def events(ledger: Ledger, gang_id: str = "dag/run/train") -> list[str]:
    """The history of the gang, by its events."""
    return [row.event for row in ledger.history(gang_id)]


def until(is_so: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {seconds} s: {what}"
        time.sleep(0.02)
