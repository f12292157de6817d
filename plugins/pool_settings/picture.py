"""What settings amount to: totals of each pool, its tree of levels, what queues own and may borrow, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from gang_scheduler.gang_queue import Quota
from gang_scheduler.node import NodeView
from gang_scheduler.pool import Authority, PoolView
from gang_scheduler.resources import Profiles
from pool_settings.queues import RESOURCES
from pool_settings.settings import Settings


@dataclass(frozen=True, slots=True)
class LevelPicture:
    """How many domains a level has, and between which numbers of nodes they hold."""

    name: str
    domains: int
    fewest_nodes: int
    most_nodes: int


@dataclass(frozen=True, slots=True)
class PoolPicture:
    """A pool in figures; power and price are of all its nodes together."""

    name: str
    kind: str
    authority: Authority
    nodes: int
    levels: tuple[LevelPicture, ...]
    cpus: float
    memory_gib: float
    scratch_gib: float
    gpus: int
    gpu_models: tuple[tuple[str, int], ...]
    mig: Profiles
    spot_nodes: int
    regions: tuple[str, ...]
    states: tuple[tuple[str, int], ...]
    storage_gib: float
    storage_gbps: float
    price_per_hour: float
    watts: float
    power_cap_w: float


@dataclass(frozen=True, slots=True)
class QuotaPicture:
    """A queue's quota; `most` is what it may hold with all that it may borrow."""

    queue: str
    cohort: str
    pool: str
    resource: str
    nominal: float
    borrow: float | None
    lend: float | None
    most: float


@dataclass(frozen=True, slots=True)
class QuotaSum:
    """What all queues own of one resource of one pool, beside what its nodes hold."""

    pool: str
    resource: str
    owned: float
    held: float
    by_cohort: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it."""

    pools: tuple[PoolPicture, ...]
    quotas: tuple[QuotaPicture, ...]
    sums: tuple[QuotaSum, ...]
    warnings: tuple[str, ...]


def picture_of(settings: Settings) -> Picture:
    """Draw the picture."""
    by_pool: dict[str, list[NodeView]] = {}
    for node in settings.nodes:
        by_pool.setdefault(node.pool, []).append(node)
    pools = tuple(_pool(pool, by_pool.get(pool.name, [])) for pool in settings.pools)
    quotas = [(queue, quota) for queue in settings.queues for quota in queue.quotas]
    pictured = tuple(
        QuotaPicture(
            queue.name,
            queue.cohort,
            quota.pool,
            quota.resource,
            quota.nominal,
            quota.borrow,
            quota.lend,
            _most(quota, [other for peer, other in quotas if queue.cohort and peer.cohort == queue.cohort]),
        )
        for queue, quota in quotas
    )
    sums = _sums(pictured, pools)
    return Picture(pools, pictured, sums, tuple(_warnings(settings, pools, sums, by_pool)))


def _pool(pool: PoolView, nodes: Sequence[NodeView]) -> PoolPicture:
    mig: Counter[str] = Counter()
    models: Counter[str] = Counter()
    for node in nodes:
        mig.update(dict(node.capacity.mig))
        if node.capacity.gpus:
            models[node.gpu_model or "unnamed"] += node.capacity.gpus
    return PoolPicture(
        name=pool.name,
        kind=pool.kind,
        authority=pool.authority,
        nodes=len(nodes),
        levels=tuple(_level(name, depth, nodes) for depth, name in enumerate(pool.levels, start=1)),
        cpus=sum(node.capacity.cpus for node in nodes),
        memory_gib=sum(node.capacity.memory_gib for node in nodes),
        scratch_gib=sum(node.capacity.scratch_gib for node in nodes),
        gpus=sum(node.capacity.gpus for node in nodes),
        gpu_models=tuple(sorted(models.items())),
        mig=tuple(sorted(mig.items())),
        spot_nodes=sum(node.is_spot for node in nodes),
        regions=tuple(sorted({node.region for node in nodes if node.region})),
        states=tuple(sorted(Counter(str(node.state) for node in nodes).items())),
        storage_gib=pool.storage_gib,
        storage_gbps=pool.storage_gbps,
        price_per_hour=sum(node.price_per_hour for node in nodes),
        watts=sum(node.watts for node in nodes),
        power_cap_w=pool.power_cap_w,
    )


def _level(name: str, depth: int, nodes: Sequence[NodeView]) -> LevelPicture:
    sizes = Counter(node.location[:depth] for node in nodes).values()
    return LevelPicture(name, len(sizes), min(sizes, default=0), max(sizes, default=0))


def _most(quota: Quota, cohort: Sequence[Quota]) -> float:
    """What it owns, and of what the others of its cohort lend, as much as it may borrow; all is free elsewhere."""
    lent = sum(
        other.nominal if other.lend is None else other.lend
        for other in cohort
        if other is not quota and (other.pool, other.resource) == (quota.pool, quota.resource)
    )
    borrow = inf if quota.borrow is None else quota.borrow
    return quota.nominal + min(borrow, lent)


def _sums(quotas: Sequence[QuotaPicture], pools: Sequence[PoolPicture]) -> tuple[QuotaSum, ...]:
    held = {pool.name: {"gpus": pool.gpus, "cpus": pool.cpus, "memory_gib": pool.memory_gib} for pool in pools}
    found = []
    for pool in dict.fromkeys(quota.pool for quota in quotas):
        for resource in RESOURCES:
            of_it = [quota for quota in quotas if (quota.pool, quota.resource) == (pool, resource)]
            if not of_it:
                continue
            cohorts: Counter[str] = Counter()
            for quota in of_it:
                cohorts[quota.cohort or f"{quota.queue} (no cohort)"] += quota.nominal  # type: ignore[assignment]  # a float
            owned = sum(quota.nominal for quota in of_it)
            there = held.get(pool, {}).get(resource, 0.0)
            found.append(QuotaSum(pool, resource, owned, there, tuple(cohorts.items())))
    return tuple(found)


def _warnings(
    settings: Settings, pools: Sequence[PoolPicture], sums: Sequence[QuotaSum], by_pool: dict[str, list[NodeView]]
) -> list[str]:
    found = []
    for pool in pools:
        if not pool.nodes and pool.authority is Authority.PHALANX:
            found.append(f"pool '{pool.name}' has no nodes here: simulations and dry runs find none in it")
        if pool.power_cap_w > pool.watts > 0:
            found.append(
                f"pool '{pool.name}': power_cap_w is {pool.power_cap_w:,.0f}, and all its nodes together draw "
                f"{pool.watts:,.0f}: the cap never limits"
            )
        if pool.power_cap_w and not pool.watts:
            found.append(f"pool '{pool.name}' has a power cap, and its nodes no watts: the cap never limits")
    found += [
        f"pool '{view.name}' has spot nodes and no spot_mtbf: they count as if never reclaimed"
        for view in settings.pools
        if view.spot_mtbf is None and any(node.is_spot for node in by_pool.get(view.name, []))
    ]
    for total in sums:
        if total.pool not in {pool.name for pool in pools if pool.nodes}:
            continue
        if total.owned > total.held:
            found.append(
                f"queues own {total.owned:,.0f} {total.resource} of pool '{total.pool}', whose nodes hold "
                f"{total.held:,.0f}: not all can have what they own at one time"
            )
        elif total.owned < total.held:
            found.append(
                f"queues own {total.owned:,.0f} of the {total.held:,.0f} {total.resource} of pool '{total.pool}': "
                f"{total.held - total.owned:,.0f} are lent by nobody, so only queues without a quota there use them"
            )
    if settings.queues and "default" not in {queue.name for queue in settings.queues}:
        found.append("there is no [queue.default]: gangs that name no gang_queue ask for it, and are refused")
    used = {node.gpu_model for node in settings.nodes}
    found += [f"no node has GPU model '{name}' ([gpu.{name}])" for name in settings.gpu_models if name not in used]
    return found
