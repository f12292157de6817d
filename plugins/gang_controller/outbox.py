"""Carries out what the plan decided: one backend call an item, each of them safe to repeat."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gang_backends.backend import Backend, BackendError, LaunchOrder, Liveness
from gang_ledgers.ledger import Ledger, OutboxItem
from gang_scheduler.verdict import AttemptEnd, Cause

log = logging.getLogger(__name__)


def carry_out(item: OutboxItem, ledger: Ledger, backends: Mapping[str, Backend]) -> None:
    """Carry out one claimed item; if that fails unexpectedly, the claim expires and the item comes again."""
    backend = backends.get(item.pool)
    if backend is None:
        log.warning("nobody here serves gang pool '%s': %s of %s is left to others", item.pool, item.kind, item.key)
        return
    act = {"launch": _launch, "stop": _stop, "probe": _probe}[item.kind]
    try:
        act(item, ledger, backend)
    except Exception:  # one gang's trouble must not keep the others waiting
        log.exception("%s of %s failed; it will be tried again", item.kind, item.key)


def _launch(item: OutboxItem, ledger: Ledger, backend: Backend) -> None:
    order = LaunchOrder(item.key, item.request, item.placement, item.run_dir, item.resume_from)
    try:
        ref = backend.launch(order, {})
    except BackendError as error:
        # The end first: a crash in between repeats the launch of an attempt that may no longer start.
        ledger.end_attempt(item.key, AttemptEnd(None, forced_cause=Cause.LAUNCH_FAILED, proof=str(error)))
        ledger.finish_outbox(item.number, error=str(error))
        return
    ledger.finish_outbox(item.number, backend_ref=ref)


def _stop(item: OutboxItem, ledger: Ledger, backend: Backend) -> None:
    backend.stop(item.backend_ref, item.run_dir, item.key, item.request.grace)
    ledger.finish_outbox(item.number)


def _probe(item: OutboxItem, ledger: Ledger, backend: Backend) -> None:
    found = backend.state(item.backend_ref, item.run_dir, item.key)
    if found.liveness is not Liveness.DEAD:
        # Not finished: the claim expires and the attempt is looked at again, until its lease is renewed or it is dead.
        log.info("%s: lease expired, %s (%s); its capacity stays held", item.key, found.liveness, found.proof)
        return
    end = found.end or AttemptEnd(None, forced_cause=Cause.SUPERVISOR_LOST, proof=found.proof)
    ledger.end_attempt(item.key, end, found.result)
    ledger.finish_outbox(item.number)
