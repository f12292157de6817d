"""Builders: what a test does not name has a plain value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gang_ledgers.ledger import Claim, NodeRecord
from gang_scheduler.gang import AttemptKey, GangRequest, PlacedWorkers, Placement, WorkerGroup
from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.gang_state import HOLDS_CAPACITY, GangState
from gang_scheduler.policy import DEFAULT_POLICY, Policy
from gang_scheduler.pool import PoolView
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
    return NodeRecord(host_id, NodeView(pool, node, Resources(cpus, 64.0)))


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


def a_snapshot(
    *gangs: GangView, nodes: Sequence[NodeView] | None = None, now: datetime = NOON, **fields: Any
) -> Snapshot:
    """A moment of the ledger; one node with two CPUs unless others are given."""
    return Snapshot(now, 1, (a_node(),) if nodes is None else tuple(nodes), gangs, **fields)


def a_gpu_node(node: str = "n1", *, gpus: int = 8, cpus: float = 64.0, pool: str = "gpu", **fields: Any) -> NodeView:
    """A node with GPUs."""
    capacity = fields.pop("capacity", Resources(cpus, fields.pop("memory_gib", 512.0), gpus))
    return NodeView(pool, node, capacity, **fields)


def gpu_nodes(count: int, *, gpus: int = 8, per_leaf: int = 0, **fields: Any) -> tuple[NodeView, ...]:
    """Nodes n1, n2, ...; with `per_leaf` so many under each leaf, whose names are leaf-1, leaf-2, ..."""
    return tuple(
        a_gpu_node(
            f"n{number}", gpus=gpus, location=(f"leaf-{(number - 1) // per_leaf + 1}",) if per_leaf else (), **fields
        )
        for number in range(1, count + 1)
    )


def a_gpu_gang(
    gang_id: str = "dag/run/train", *, workers: int = 1, gpus: int = 8, minutes: float | None = None, **fields: Any
) -> GangRequest:
    """Workers with so many GPUs each, and as many CPUs; `minutes` is the expected duration."""
    group = WorkerGroup("trainer", workers, Resources(cpus=float(gpus), gpus=gpus), fields.pop("min_workers", None))
    duration = None if minutes is None else timedelta(minutes=minutes)
    given = {"gang_pool": "gpu", "worker_groups": (group,), "expected_duration": duration}
    return a_gang(gang_id, **(given | fields))


def a_running(
    request: GangRequest,
    *nodes: str,
    ran: timedelta = timedelta(minutes=10),
    state: GangState = GangState.RUNNING,
    **fields: Any,
) -> GangView:
    """A gang of one group that has run so long; a node named twice has two of its workers."""
    group = request.worker_groups[0]
    spots = nodes or ("n1",) * group.workers
    placed = tuple(PlacedWorkers(node, group.name, spots.count(node)) for node in dict.fromkeys(spots))
    pool = fields.pop("pool", request.gang_pool)
    return a_view(request, state, waited=ran, placement=Placement(pool, placed), **fields)


def a_pool(name: str = "gpu", **fields: Any) -> PoolView:
    """A pool without limits."""
    return PoolView(name, **fields)


def a_quota(nominal: float, *, pool: str = "gpu", resource: str = "gpus", **fields: Any) -> Quota:
    """So many GPUs of a pool are a queue's own."""
    return Quota(pool, resource, nominal, **fields)


def a_queue(name: str, *quotas: Quota, **fields: Any) -> QueueView:
    """A gang queue with these quotas."""
    return QueueView(name, quotas=quotas, **fields)


def a_policy(**fields: Any) -> Policy:
    """The default policy, but for what is named."""
    return replace(DEFAULT_POLICY, **fields)


def a_verdict(cause: Cause = Cause.RANK_KILLED, sentence: str = "", **fields: Any) -> Verdict:
    """A verdict on an attempt's end."""
    return Verdict(cause, 1.0, sentence or f"it ended: {cause}", str(CLASS_OF[cause]), **fields)


def a_key(gang_id: str = "dag/run/train", submission: int = 1, attempt: int = 1) -> AttemptKey:
    """An attempt."""
    return AttemptKey(gang_id, submission, attempt)
