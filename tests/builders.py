"""Builders: what a test does not name has a plain value."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gang_ledgers.ledger import Claim, NodeRecord
from gang_scheduler.gang import AttemptKey, GangRequest, PlacedWorkers, Placement, WorkerGroup
from gang_scheduler.gang_state import HOLDS_CAPACITY, GangState
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, NodeView, Snapshot
from gang_scheduler.verdict import CLASS_OF, Cause, Verdict

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOST = "host-1"


def a_gang(gang_id: str = "dag/run/train", *, workers: int = 2, cpus: float = 1.0, **fields: Any) -> GangRequest:
    """A request for workers of one group."""
    given: dict[str, Any] = {
        "gang_id": gang_id,
        "dag_id": gang_id.split("/")[0],
        "gang_pool": "local",
        "worker_groups": (WorkerGroup("trainer", workers, Resources(cpus=cpus)),),
        "command": ("-m", "training.train", "{run_spec}"),
        "run_spec_json": "{}",
        "run_spec_digest": f"digest of {gang_id}",
    }
    return GangRequest(**(given | fields))


def a_claim(owner: str = "try-1", generation: int = 1, **fields: Any) -> Claim:
    """Somebody's claim; a clear is a higher generation with another owner."""
    return Claim(owner=owner, generation=generation, **fields)


def a_node(node: str = "localhost", *, cpus: float = 2.0, pool: str = "local", **fields: Any) -> NodeView:
    """A node as the plan sees it."""
    return NodeView(pool, node, fields.pop("capacity", Resources(cpus=cpus)), **fields)


def a_node_record(
    node: str = "localhost", *, cpus: float = 2.0, pool: str = "local", host_id: str = HOST
) -> NodeRecord:
    """A node as its backend registers it."""
    return NodeRecord(pool, node, host_id, cpus, 64.0, 0)


def a_view(
    request: GangRequest | None = None,
    state: GangState = GangState.QUEUED,
    *,
    waited: timedelta = timedelta(minutes=1),
    node: str = "localhost",
    **fields: Any,
) -> GangView:
    """A submission as the plan sees it, `waited` long in its state; placed on one node if its state holds slots."""
    request = request or a_gang()
    has_run = state is not GangState.QUEUED
    view = GangView(
        request=request,
        submission=fields.pop("submission", 1),
        attempt=fields.pop("attempt", 1 if has_run else 0),
        state=state,
        submitted_at=fields.pop("submitted_at", NOON - waited),
        state_since=NOON - waited,
    )
    if state in HOLDS_CAPACITY:
        placed = tuple(PlacedWorkers(node, group.name, group.workers) for group in request.worker_groups)
        view = replace(
            view,
            placement=Placement(request.gang_pool, placed),
            admitted_at=NOON - waited,
            start_by=NOON + timedelta(minutes=1),
            lease_expires_at=None if state is GangState.ADMITTED else NOON + timedelta(seconds=10),
        )
    return replace(view, **fields)


def a_snapshot(*gangs: GangView, nodes: tuple[NodeView, ...] | None = None, now: datetime = NOON) -> Snapshot:
    """A moment of the ledger; one node with two CPUs unless others are given."""
    return Snapshot(now, 1, (a_node(),) if nodes is None else nodes, gangs)


def a_verdict(cause: Cause = Cause.RANK_KILLED, sentence: str = "", **fields: Any) -> Verdict:
    """A verdict on an attempt's end."""
    return Verdict(cause, 1.0, sentence or f"it ended: {cause}", str(CLASS_OF[cause]), **fields)


def a_key(gang_id: str = "dag/run/train", submission: int = 1, attempt: int = 1) -> AttemptKey:
    """An attempt."""
    return AttemptKey(gang_id, submission, attempt)
