"""What a run costs in a pool, and which pool finishes a gang in time for the least."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, inf

from gang_scheduler.board import Board
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.node import NodeView
from gang_scheduler.pool import PoolView

_RESTART_S = 60.0  # what a gang of more than 8 GPUs loses to a restart, as the simulator has it
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a pool offers a gang that would start now; money is in the pool's currency."""

    pool: str
    finish_s: float
    cost: float


def pools_by_cost(entry: Entry, board: Board) -> tuple[str, ...]:
    """The gang's pools in the order in which to try them.

    Without a deadline, or a duration to judge by, that is the author's order. Else those that meet the deadline come
    first, cheapest first, then the others, soonest first; ties keep the author's order.
    """
    request = entry.request
    if request.deadline is None or entry.expected_s is None or len(request.pools) == 1:
        return request.pools
    deadline_s = request.deadline.timestamp()
    offers = [offer(entry, board.pools[pool], board) for pool in request.pools if pool in board.pools]
    in_time = sorted((found for found in offers if found.finish_s <= deadline_s), key=lambda found: found.cost)
    late = sorted((found for found in offers if found.finish_s > deadline_s), key=lambda found: found.finish_s)
    return tuple(found.pool for found in in_time + late)


def offer(entry: Entry, capacity: PoolCapacity, board: Board) -> Offer:
    """When the gang would finish in the pool, started now on nodes like its first usable one, and for how much."""
    node = next((node for node in capacity.nodes if node.is_usable), None)
    if node is None:
        return Offer(capacity.pool.name, inf, inf)
    nodes = _nodes_needed(entry, node)
    run_s = entry.remaining_s(board.now_s, board.policy) / node.compute
    if node.is_spot and capacity.pool.spot_mtbf is not None:
        run_s *= 1 + nodes * _lost_s(entry, run_s) / capacity.pool.spot_mtbf.total_seconds()
    cost = nodes * node.price_per_hour * run_s / 3600
    cost += nodes * node.watts / 1000 * _price_of_energy(capacity.pool, board.now, run_s)
    return Offer(capacity.pool.name, board.now_s + entry.overhead_s + run_s, cost)


def _nodes_needed(entry: Entry, node: NodeView) -> int:
    total, has = entry.request.total, node.capacity
    parts = [(total.gpu_count, has.gpus), (total.cpus, has.cpus), (total.memory_gib, has.memory_gib)]
    return max([1, *(ceil(asked / held) for asked, held in parts if asked and held)])


def _lost_s(entry: Entry, run_s: float) -> float:
    """What one reclaim costs: half a checkpoint interval on average (the whole run where there is none), a restart."""
    interval = entry.request.checkpoint_interval
    return (run_s if interval is None else interval.total_seconds()) / 2 + _RESTART_S


def _price_of_energy(pool: PoolView, start: datetime, run_s: float) -> float:
    """The price of one kW over the run, by the tariff of each hour."""
    total, at, left = 0.0, start, run_s / 3600
    days, left = divmod(left, 24)
    if days:
        total += days * sum(_price_at(pool, start + hour * _HOUR) for hour in range(24))
    while left > 0:
        total += _price_at(pool, at) * min(1.0, left)
        at, left = at + _HOUR, left - 1
    return total


def _price_at(pool: PoolView, at: datetime) -> float:
    return next((tariff.price_per_kwh for tariff in pool.tariffs if tariff.window.holds(at)), pool.price_per_kwh)
