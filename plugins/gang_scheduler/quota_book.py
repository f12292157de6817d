"""Who holds how much of which quota: nominal, borrowed of the cohort, lent to it, and each queue's fair share.

The arithmetic is Kueue's: of its nominal quota a queue keeps what it does not lend; the rest of all queues of a cohort
is a common pot, from which each may draw up to its own rest plus what it may borrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, log

from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.resources import TINY, Amounts

Flavour = tuple[str, str]  # pool, resource


@dataclass(frozen=True, slots=True)
class QuotaShort:
    """Why a gang may not be admitted by its queue: what it would hold, and the limit that says no."""

    sentence: str
    is_cap: bool = False


class QuotaBook:
    """What each queue holds, kept by `charge`."""

    def __init__(self, queues: Iterable[QueueView], capacity: Mapping[Flavour, float], half_life_s: float) -> None:
        """Nobody holds anything.

        Args:
            queues: the configured queues; any other has no limits.
            capacity: what the pools hold in all, for the shares.
            half_life_s: of the usage history.
        """
        self._used: dict[str, dict[Flavour, float]] = {}
        self._gangs: dict[str, int] = {}
        self.changes = 0  # counts the charges, so that what was read of the book can be known to hold still
        self.renew(queues)
        self._capacity = capacity
        # The history of a queue that always held one dominant share is half-life / ln 2: divided by it, it is a share.
        self._history_per_share = half_life_s / log(2) if half_life_s > 0 else inf

    def renew(self, queues: Iterable[QueueView]) -> None:
        """Take over the queues' limits and history as they are now; what each holds stays."""
        self.queues = {queue.name: queue for queue in queues}
        self.is_shared = len(self.queues) > 1
        self._quotas: dict[str, dict[Flavour, Quota]] = {
            name: {(quota.pool, quota.resource): quota for quota in queue.quotas} for name, queue in self.queues.items()
        }
        self._cohorts: dict[str, list[str]] = {}
        for name, queue in self.queues.items():
            self._cohorts.setdefault(queue.cohort or f"\0{name}", []).append(name)
        self._pots: dict[tuple[str, Flavour], tuple[float, float]] = {}  # until the next charge

    def copy(self) -> QuotaBook:
        """An independent copy."""
        other = object.__new__(QuotaBook)
        other.__dict__.update(self.__dict__)
        other._used = {name: used.copy() for name, used in self._used.items()}
        other._gangs = self._gangs.copy()
        other._pots = self._pots.copy()
        return other

    def charge(self, queue: str, pool: str, amounts: Amounts, sign: int) -> None:
        """Let a gang of the queue hold (1) or free (-1) so much in the pool."""
        self.changes += 1
        self._pots.clear()
        used = self._used.setdefault(queue, {})
        for resource, amount in amounts.items():
            flavour = (pool, resource)
            # Rounded, so that what came and went leaves nothing behind by which one queue would seem to hold more.
            used[flavour] = round(used.get(flavour, 0.0) + sign * amount, 9)
        self._gangs[queue] = self._gangs.get(queue, 0) + sign

    def used(self, queue: str, flavour: Flavour) -> float:
        """What the queue holds of the flavour."""
        return self._used.get(queue, {}).get(flavour, 0.0)

    # --- limits

    def short(self, queue: str, pool: str, amounts: Amounts, *, may_borrow: bool = True) -> QuotaShort | None:
        """Why the queue may not hold so much more in the pool; None if it may."""
        view = self.queues.get(queue)
        if view is None:
            return None
        capped = self._capped(view, amounts)
        if capped is not None:
            return capped
        for resource, amount in amounts.items():
            quota = self._quotas[queue].get((pool, resource))
            if quota is not None:
                found = self._over(view, quota, amount, may_borrow)
                if found is not None:
                    return found
        return None

    def _capped(self, view: QueueView, amounts: Amounts) -> QuotaShort | None:
        gangs = self._gangs.get(view.name, 0)
        if view.max_gangs and gangs >= view.max_gangs:
            return QuotaShort(
                f"gang queue '{view.name}' holds {gangs} gangs of at most {view.max_gangs} "
                f"([queue.{view.name}] max_gangs)",
                is_cap=True,
            )
        if view.max_gpus:
            held = sum(amount for (_, what), amount in self._used.get(view.name, {}).items() if what == "gpus")
            if held + amounts.get("gpus", 0.0) > view.max_gpus + TINY:
                return QuotaShort(
                    f"gang queue '{view.name}' holds {held:g} GPUs of at most {view.max_gpus:g} "
                    f"([queue.{view.name}] max_gpus); the gang asks {amounts.get('gpus', 0.0):g}",
                    is_cap=True,
                )
        return None

    def _over(self, view: QueueView, quota: Quota, amount: float, may_borrow: bool) -> QuotaShort | None:
        flavour = (quota.pool, quota.resource)
        used = self.used(view.name, flavour)
        borrow = (inf if quota.borrow is None else quota.borrow) if may_borrow and view.cohort else 0.0
        limit = quota.nominal + borrow
        where = f"gang queue '{view.name}' holds {used:g} {quota.resource} of pool '{quota.pool}'"
        if used + amount > limit + TINY:
            parts = f"{quota.nominal:g} nominal" + (f" + {borrow:g} borrowed" if borrow else "")
            return QuotaShort(
                f"{where} of at most {limit:g} ({parts}, [queue.{view.name}.quota.{quota.pool}]); "
                f"the gang asks {amount:g}"
            )
        pot, drawn = self._pot(view, flavour)
        own_rest = quota.nominal - self._lendable(quota)
        draws = max(0.0, used + amount - own_rest) - max(0.0, used - own_rest)
        if draws > pot - drawn + TINY:
            return QuotaShort(
                f"{where}; the gang asks {amount:g}, of which {draws:g} come from cohort '{view.cohort}', where "
                f"{max(0.0, pot - drawn):g} of {pot:g} are left ([queue.{view.name}.quota.{quota.pool}])"
            )
        return None

    def _pot(self, view: QueueView, flavour: Flavour) -> tuple[float, float]:
        """What the queues of the cohort put into the pot, and what they have drawn from it."""
        key = view.cohort or f"\0{view.name}", flavour
        found = self._pots.get(key)
        if found is None:
            found = self._pots[key] = self._reckon_pot(*key)
        return found

    def _reckon_pot(self, cohort: str, flavour: Flavour) -> tuple[float, float]:
        pot = drawn = 0.0
        for name in self._cohorts[cohort]:
            quota = self._quotas[name].get(flavour)
            if quota is not None:
                pot += self._lendable(quota)
                drawn += max(0.0, self.used(name, flavour) - (quota.nominal - self._lendable(quota)))
        return pot, drawn

    def _lendable(self, quota: Quota) -> float:
        return quota.nominal if quota.lend is None else min(quota.lend, quota.nominal)

    def borrows(self, queue: str, pool: str, amounts: Amounts | None = None) -> bool:
        """True if the queue holds, or with so much more would hold, above its nominal quota in the pool."""
        quotas = self._quotas.get(queue, {})
        return any(
            of_pool == pool
            and self.used(queue, (of_pool, resource)) + (amounts or {}).get(resource, 0.0) > quota.nominal + TINY
            for (of_pool, resource), quota in quotas.items()
        )

    def are_of_one_cohort(self, one: str, other: str) -> bool:
        """True if the queues lend to each other."""
        first, second = self.queues.get(one), self.queues.get(other)
        return bool(first and second and first.cohort and first.cohort == second.cohort)

    def has_quota(self, queue: str, pool: str) -> bool:
        """True if the queue owns any of the pool."""
        return any(of_pool == pool for of_pool, _ in self._quotas.get(queue, {}))

    # --- fairness

    def share(self, queue: str) -> float:
        """Its weighted dominant share (DRF, NSDI'11) now, plus that of its decayed history."""
        view = self.queues.get(queue)
        held = self._used.get(queue, {})
        dominant = max(
            (amount / self._capacity[flavour] for flavour, amount in held.items() if self._capacity.get(flavour)),
            default=0.0,
        )
        if view is None:
            return dominant
        return (dominant + view.usage / self._history_per_share) / view.weight if view.weight > 0 else inf
