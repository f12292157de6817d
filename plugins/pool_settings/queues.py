"""Gang queues, pools and policy: tables become the scheduler's types."""

from __future__ import annotations

from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.policy import Policy
from gang_scheduler.pool import DailyWindow, PoolView, Tariff
from pool_settings.tables import PolicyTable, PoolTable, QueueTable, WindowTable

RESOURCES = ("gpus", "cpus", "memory_gib")


def pool_view(name: str, table: PoolTable) -> PoolView:
    """The pool without its nodes."""
    return PoolView(
        name=name,
        kind=table.kind,
        levels=tuple(table.levels),
        authority=table.authority,
        storage_gib=table.storage_gib,
        storage_gbps=table.storage_gbps,
        power_cap_w=table.power_cap_w,
        price_per_kwh=table.price_per_kwh,
        tariffs=tuple(Tariff(_window(tariff), tariff.price_per_kwh) for tariff in table.tariffs),
        spot_mtbf=table.spot_mtbf,
        cpu_reserve_per_gpu=table.cpu_reserve_per_gpu,
    )


def queue_view(name: str, table: QueueTable) -> QueueView:
    """The queue."""
    quotas = [
        Quota(pool, resource, quota.nominal, quota.borrow, quota.lend)
        for pool, of_pool in table.quota.items()
        for resource in RESOURCES
        if (quota := getattr(of_pool, resource)) is not None
    ]
    return QueueView(
        name=name,
        cohort=table.cohort,
        quotas=tuple(quotas),
        weight=table.weight,
        usage=table.usage,
        windows=tuple(_window(window) for window in table.windows),
        harvests_only=table.harvests_only,
        max_gangs=table.max_gangs,
        max_gpus=table.max_gpus,
        dag_ids=tuple(table.dag_ids),
    )


def policy_of(table: PolicyTable) -> Policy:
    """The policy; the names are the same."""
    return Policy(**{name: getattr(table, name) for name in PolicyTable.model_fields})


def _window(table: WindowTable) -> DailyWindow:
    return DailyWindow(table.from_hour, table.until_hour)
