"""What is asked for: a gang of worker groups, admitted together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from gang_scheduler.resources import Amounts, Resources

Kind = str
CPUS_PER_GPU = 8.0  # how gangs without GPUs are weighed against those with; only their order depends on it


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Identical workers of one role; `each` is what one worker asks for.

    With `min_workers` the group is elastic: it starts with at least so many and grows up to `workers`.
    `harvests_cpus` lets workers without GPUs use spare CPUs of GPU nodes; they are the first to be evicted there.
    """

    name: str
    workers: int
    each: Resources = field(default_factory=lambda: Resources(cpus=1.0))
    min_workers: int | None = None
    harvests_cpus: bool = False

    @property
    def fewest(self) -> int:
        """The least workers that the group runs with."""
        return self.workers if self.min_workers is None else self.min_workers

    @property
    def total(self) -> Resources:
        """What all workers of the group ask for together."""
        return self.each * self.workers


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """How long a gang may spend on each of its four clocks; None means no limit.

    Queue time never counts as run time, and recovering is neither (docs/contracts.md, "Clocks"). `starting` holds for
    each attempt anew, the others for what the submission's attempts spend together.
    """

    queued: timedelta | None = None
    starting: timedelta | None = timedelta(minutes=10)
    running: timedelta | None = None
    recovering: timedelta | None = None  # frees even what is not proven dead, so only its author sets it


@dataclass(frozen=True, slots=True)
class Budgets:
    """How many attempts may end by each kind of cause before the gang fails."""

    infrastructure: int = 5
    user: int = 0


@dataclass(frozen=True, slots=True)
class Topology:
    """All workers under one domain of `level` (`"node"`, a level of the pool, `"pool"`): required, or if possible."""

    level: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class NodeWishes:
    """Which nodes a gang takes.

    `regions` and `labels` are required, `preferred_labels` only break ties; `gpu_models` are tried in their order
    (empty: any); `near` and `apart` name gangs to share, or not to share, a domain of `spread_level` with; `excluded`
    nodes are never used.
    """

    regions: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    preferred_labels: Mapping[str, str] = field(default_factory=dict)
    gpu_models: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    spread_level: str = "node"
    excluded: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for wishes that mean the same."""
        return (
            self.regions,
            tuple(sorted(self.labels.items())),
            tuple(sorted(self.preferred_labels.items())),
            self.gpu_models,
            self.near,
            self.apart,
            self.spread_level,
            self.excluded,
        )


NO_WISHES = NodeWishes()


@dataclass(frozen=True)  # without slots: what is derived from it is worked out once and kept with it
class GangRequest:
    """All that the scheduler and a backend need to know of one gang.

    `gang_id` is chosen by the caller (`dag_id/run_id/task_id[/map_index]`), so asking twice is asking once.
    `command` is the program and its arguments as torchrun takes them after its own options, e.g.
    `("-m", "training.train", "{run_spec}")`; `{run_spec}` is replaced by the path of the RunSpec file that the
    backend writes from `run_spec_json` into the run folder. `run_spec_digest` decides "already done".
    """

    gang_id: str
    dag_id: str
    gang_pool: str
    worker_groups: tuple[WorkerGroup, ...]
    command: tuple[str, ...]
    run_spec_json: str
    run_spec_digest: str
    gang_queue: str = "default"
    gang_priority: int = 0
    limits: ClockLimits = field(default_factory=ClockLimits)
    budgets: Budgets = field(default_factory=Budgets)
    grace: timedelta = timedelta(seconds=30)
    labels: Mapping[str, str] = field(default_factory=dict)
    fallback_pools: tuple[str, ...] = ()
    topology: Topology | None = None
    wishes: NodeWishes = NO_WISHES
    deadline: datetime | None = None
    expected_duration: timedelta | None = None  # of the whole submission, at compute 1.0; None: learned, or unknown
    is_preemptible: bool = True
    checkpoint_interval: timedelta | None = None
    storage_gib: float = 0.0  # of the pool's shared storage, while it runs
    storage_gbps: float = 0.0

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """The pools it may run in, in order of preference."""
        return (self.gang_pool, *self.fallback_pools)

    @cached_property
    def is_elastic(self) -> bool:
        """True if it may run with fewer workers than it asks for."""
        return any(group.fewest < group.workers for group in self.worker_groups)

    @cached_property
    def harvests(self) -> bool:
        """True if it lives on spare CPUs of GPU nodes: it waits behind all others of its priority, and makes room."""
        return not self.total.gpu_count and any(group.harvests_cpus for group in self.worker_groups)

    @cached_property
    def workers(self) -> int:
        """Number of workers over all groups."""
        return sum(group.workers for group in self.worker_groups)

    @cached_property
    def total(self) -> Resources:
        """What the whole gang asks for."""
        total = self.worker_groups[0].total if self.worker_groups else Resources()
        for group in self.worker_groups[1:]:
            total = total + group.total
        return total

    @cached_property
    def size(self) -> float:
        """How large it is for the orders that weigh service: its GPUs, else its CPUs as parts of one."""
        return self.total.gpu_count or self.total.cpus / CPUS_PER_GPU or 1.0

    @cached_property
    def expected_s(self) -> float | None:
        """`expected_duration` in seconds."""
        return None if self.expected_duration is None else self.expected_duration.total_seconds()

    @cached_property
    def amounts(self) -> Amounts:
        """What quotas count of the whole gang."""
        return self.total.amounts

    @cached_property
    def least_amounts(self) -> Amounts:
        """What quotas count of the gang with the fewest workers that it runs with."""
        return self.least.amounts

    @cached_property
    def each(self) -> Mapping[str, Resources]:
        """What one worker asks for, by worker group."""
        return {group.name: group.each for group in self.worker_groups}

    @cached_property
    def least(self) -> Resources:
        """What the gang asks for with the fewest workers that it runs with."""
        if not self.is_elastic:
            return self.total
        total = Resources()
        for group in self.worker_groups:
            total = total + group.each * group.fewest
        return total

    @cached_property
    def harvests_cpus(self) -> bool:
        """True if any of its workers use spare CPUs of GPU nodes."""
        return any(group.harvests_cpus for group in self.worker_groups)

    @cached_property
    def kind(self) -> Kind:
        """Equal for gangs of one queue that fit, or do not, alike: where one found no room, one behind finds none.

        A text, since its hash is worked out once.
        """
        parts = (
            self.gang_queue,
            self.pools,
            tuple((group.each, group.workers, group.fewest, group.harvests_cpus) for group in self.worker_groups),
            self.topology,
            self.wishes.kind,
            self.storage_gib,
            self.storage_gbps,
            self.deadline if self.fallback_pools else None,
        )
        return repr(parts)


Key = tuple[str, int]  # gang id, submission


class AttemptKey(NamedTuple):
    """Names one launch of one submission of one gang: the fencing token of everything that runs.

    A tuple, since a plan makes, compares and looks up thousands.
    """

    gang_id: str
    submission: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.gang_id} submission {self.submission} attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class PlacedWorkers:
    """So many workers of one group on one node; `devices` are the GPUs that each of them has its share of, in order."""

    node: str
    group: str
    workers: int
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where each worker of a gang runs; the order of entries is the node rank order."""

    pool: str
    workers: tuple[PlacedWorkers, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Node names in rank order, each once."""
        return tuple(dict.fromkeys(placed.node for placed in self.workers))
