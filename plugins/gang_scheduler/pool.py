"""Pools: nodes of one hardware type under one admission authority, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Authority(StrEnum):
    """Who admits gangs to a pool; there is one for each, and Phalanx never mirrors another's quota."""

    PHALANX = "phalanx"
    KUEUE = "kueue"
    VOLCANO = "volcano"


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """A part of each day in UTC, `from_hour` until `until_hour` (0 to 24; past midnight where the end is smaller)."""

    from_hour: float
    until_hour: float

    def holds(self, at: datetime) -> bool:
        """True if the instant lies in the window."""
        hour = at.hour + at.minute / 60 + at.second / 3600
        if self.from_hour <= self.until_hour:
            return self.from_hour <= hour < self.until_hour
        return hour >= self.from_hour or hour < self.until_hour

    def next_edge(self, at: datetime) -> datetime:
        """When it opens or closes next, after the instant."""
        midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
        hours = [day * 24 + hour for day in (0, 1) for hour in (self.from_hour, self.until_hour)]
        return min(edge for edge in (midnight + timedelta(hours=hour) for hour in hours) if edge > at)


@dataclass(frozen=True, slots=True)
class Tariff:
    """While the window holds, energy costs `price_per_kwh`."""

    window: DailyWindow
    price_per_kwh: float


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool; `levels` name the topology between pool and node, widest first (`("spine", "leaf", "nvlink")`).

    `power_cap_w` limits the sum of the watts of the nodes in use; 0 is no limit, as for storage. `spot_mtbf` is the
    mean time between reclaims of one spot node. `cpu_reserve_per_gpu` CPUs of a node stay free of harvesting for each
    of its GPUs.
    """

    name: str
    kind: str = ""
    levels: tuple[str, ...] = ()
    authority: Authority = Authority.PHALANX
    storage_gib: float = 0.0
    storage_gbps: float = 0.0
    power_cap_w: float = 0.0
    price_per_kwh: float = 0.0
    tariffs: tuple[Tariff, ...] = ()
    spot_mtbf: timedelta | None = None
    cpu_reserve_per_gpu: float = 0.0
