"""How gangs of one priority are ordered and what may pass whom: settings of `plan`, fixed before any trace was run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import inf


class Order(StrEnum):
    """Who comes first inside one priority of one queue."""

    DUE = "due"  # asked + stretch x expected duration: the short pass the long, and nobody is passed for ever
    FIFO = "fifo"  # who asked first
    SJF = "sjf"  # the shortest expected duration
    SRSF = "srsf"  # the least remaining GPU time (workers x expected remaining time)
    LAS = "las"  # the least GPU time got so far, in classes; needs no durations


class Blocking(StrEnum):
    """What the first gang that does not fit means to those behind it."""

    HEAD = "head"  # nobody passes it
    EASY = "easy"  # it gets a reservation; who does not delay that may pass
    CONSERVATIVE = "conservative"  # everyone who waits gets a reservation
    NONE = "none"  # whoever fits goes


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of admission.

    With `Order.DUE` no gang is passed by one that was asked later than `stretch` times its own expected duration after
    it; where durations are unknown all are taken to be equal, which makes it first come, first served.

    `preempts_by_order`: a gang that comes first in the order may take the place of running ones of its own priority
    that come later; only if they have run `min_run` since they started (twice as long for each time that they were
    stopped before, which also holds for reclaims), and come later by the factor `hysteresis` (SRSF) or by `las_gap`
    classes (LAS).
    `aged_after`: of those that have waited so long the first goes before all others of its priority, and is not
    preempted by order (`ageing`); with `sjf`, `srsf` and `las` only, since with the other orders everybody's turn
    comes. None is never. `las_first` and `las_factor` are the classes of attained GPU time: below the first, then each
    wider by the factor. A running gang of unknown duration is taken to run as long again as it has, and at least
    `assumed_duration`. `usage_half_life` is that of the usage history of queues.
    """

    order: Order = Order.DUE
    stretch: float = 10.0
    blocking: Blocking = Blocking.EASY
    preempts_by_order: bool = False
    preempts_by_priority: bool = True
    reclaims_quota: bool = True
    fair_share: bool = True
    min_run: timedelta = timedelta(minutes=5)
    hysteresis: float = 1.05
    aged_after: timedelta | None = timedelta(days=7)
    las_first: timedelta = timedelta(hours=1)
    las_factor: float = 2.0
    las_gap: int = 4
    assumed_duration: timedelta = timedelta(hours=1)
    usage_half_life: timedelta = timedelta(days=7)
    reservation_depth: int = 64  # of conservative blocking

    @property
    def ages_after_s(self) -> float:
        """After how many seconds of waiting a gang has aged; infinite if none does."""
        if self.aged_after is None or self.order in (Order.DUE, Order.FIFO):
            return inf
        return self.aged_after.total_seconds()

    @property
    def ranks_who_runs(self) -> bool:
        """True if who runs may be stopped for one of its own priority that comes first in the order."""
        return self.preempts_by_order and self.order in (Order.SRSF, Order.LAS)

    def far_behind(self, rank: float) -> float:
        """The least rank of running gangs that one of this rank may take the place of."""
        return rank + self.las_gap if self.order is Order.LAS else rank * self.hysteresis


DEFAULT_POLICY = Policy()
