"""The cluster that a trace is replayed on: its nodes, pools and queues, and how jobs become gangs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from gang_scheduler.gang import NO_WISHES, Budgets, ClockLimits, GangRequest, NodeWishes, WorkerGroup
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.node import NodeView
from gang_scheduler.policy import Policy
from gang_scheduler.pool import PoolView
from gang_scheduler.resources import Resources
from gang_simulator.jobs import Job

POOL = "gpu"
QUEUE = "default"
# Of what a trace is replayed for, faults are part: no job fails for having met too many.
_ENDLESS = Budgets(infrastructure=1_000_000_000)
_NO_LIMITS = ClockLimits(starting=None)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything that doesn't change during a replay, node faults aside.

    `policy` is that of the pools file, None without one. `label` says in a few words what the cluster is.
    """

    label: str
    nodes: tuple[NodeView, ...]
    pools: tuple[PoolView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    policy: Policy | None = None
    priorities: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return sum(node.capacity.gpus for node in self.nodes)

    @property
    def gpu_pools(self) -> tuple[str, ...]:
        """The pools that hold GPUs, in the order of the file."""
        holding = {node.pool for node in self.nodes if node.capacity.gpus}
        listed = [pool.name for pool in self.pools if pool.name in holding]
        return tuple(dict.fromkeys([*listed, *sorted(holding)]))

    @property
    def gpus_per_node(self) -> int:
        """GPUs of the largest node: a job of more takes whole nodes."""
        return max((node.capacity.gpus for node in self.nodes), default=0)

    @property
    def gpu_models(self) -> frozenset[str]:
        """What jobs may ask for by `gpu_type`."""
        return frozenset(node.gpu_model for node in self.nodes if node.gpu_model)

    def queue_of(self, job: Job) -> str:
        """The gang queue that the job goes to: the one of its `vc`'s name if there is one."""
        return job.vc if any(queue.name == job.vc for queue in self.queues) else QUEUE


def plain_cluster(nodes: int, gpus_per_node: int) -> Cluster:
    """So many equal nodes in one pool, with no queue of its own.

    Raises:
        ValueError: either is below 1.
    """
    if nodes < 1 or gpus_per_node < 1:
        raise ValueError(
            f"a cluster of {nodes} nodes with {gpus_per_node} GPUs each was asked for; both have to be at least 1 "
            "(--nodes, --gpus-per-node)"
        )
    width = len(str(nodes - 1))
    views = tuple(NodeView(POOL, f"node-{number:0{width}d}", Resources(gpus=gpus_per_node)) for number in range(nodes))
    return Cluster(f"{nodes} nodes x {gpus_per_node} GPUs", views)


def request_of(
    job: Job, number: int, cluster: Cluster, *, durations_are_known: bool, checkpoint_every_s: float | None
) -> GangRequest:
    """The gang of a job: one worker if a node holds it, else workers of whole nodes and one for the remainder.

    Args:
        job: what was asked for.
        number: its place in the order of submission, which breaks ties.
        cluster: where it goes.
        durations_are_known: whether the scheduler is told how long it runs.
        checkpoint_every_s: how often it saves its state.
    """
    pool, *others = cluster.gpu_pools or (POOL,)
    wants_model = job.gpu_type in cluster.gpu_models
    return GangRequest(
        gang_id=f"{number:08d}/{job.job_id}",
        dag_id=job.vc or "trace",
        gang_pool=pool,
        fallback_pools=tuple(others),
        worker_groups=_groups(job.gpus, cluster.gpus_per_node),
        command=(),
        run_spec_json="",
        run_spec_digest="",
        gang_queue=cluster.queue_of(job),
        gang_priority=job.priority,
        limits=_NO_LIMITS,
        budgets=_ENDLESS,
        wishes=NodeWishes(gpu_models=(job.gpu_type,)) if wants_model else NO_WISHES,
        expected_duration=timedelta(seconds=job.duration_s) if durations_are_known else None,
        checkpoint_interval=None if checkpoint_every_s is None else timedelta(seconds=checkpoint_every_s),
    )


def _groups(gpus: int, per_node: int) -> tuple[WorkerGroup, ...]:
    if gpus <= per_node or per_node < 1:
        return (WorkerGroup("worker", 1, Resources(gpus=gpus)),)
    whole, rest = divmod(gpus, per_node)
    groups = (WorkerGroup("worker", whole, Resources(gpus=per_node)),)
    return (*groups, WorkerGroup("remainder", 1, Resources(gpus=rest))) if rest else groups
