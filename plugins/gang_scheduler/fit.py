"""Does this gang fit into that capacity: its spots, its compute, and what else it needs of the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.eligible import Standing, eligible_sets
from gang_scheduler.entry import Entry
from gang_scheduler.fragmentation import TypicalAsks
from gang_scheduler.placement import Ask, Spot, find_spots
from gang_scheduler.resources import TINY, Resources
from gang_scheduler.shared_spots import find_shared_spots, typical_asks


@dataclass(frozen=True, slots=True)
class Fit:
    """Where a gang would go: spots (group, node number, workers) in rank order, and their common compute."""

    spots: tuple[Spot, ...]
    compute: float
    is_whole: bool = True  # False: an elastic gang with fewer workers than it asks for


class Fitter:
    """Asks for a gang's spots; keeps what its wishes mean in each pool for the time of one pass."""

    def __init__(self, standing: Mapping[str, Standing], others: Callable[[], Iterable[Entry]] = tuple) -> None:
        """`standing` says for each pool where the gangs stand; what `others` ask is what GPUs are wanted for."""
        self._standing = standing
        self._others = others
        self._sets: dict[tuple[str, object], list[int | None]] = {}

    def fit(self, entry: Entry, capacity: PoolCapacity, *, within: int | None = None) -> Fit | None:
        """Its spots in the capacity, or None; an elastic gang starts with its fewest workers.

        Args:
            entry: the gang.
            capacity: the pool at the moment in question.
            within: only these nodes.
        """
        ask = Ask.of(entry.request, is_fewest=entry.request.is_elastic)
        for allowed in self.eligible(entry, capacity):
            nodes = allowed if within is None else within if allowed is None else allowed & within
            fit = self._fit(entry, ask, capacity, nodes)
            if fit is not None:
                return fit
        return None

    def largest_first(self, entry: Entry, capacity: PoolCapacity) -> Iterator[Fit]:
        """Each size of an elastic gang that fits, all of its workers first."""
        for ask in self._sizes(entry):
            for allowed in self.eligible(entry, capacity):
                fit = self._fit(entry, ask, capacity, allowed)
                if fit is not None:
                    yield fit
                    break

    def _fit(self, entry: Entry, ask: Ask, capacity: PoolCapacity, nodes: int | None) -> Fit | None:
        if entry.total.gpu_share and len(ask.groups) == 1 and not ask.is_required:
            spots = find_shared_spots(ask, capacity, nodes, self._typical)
        else:
            spots = find_spots(ask, capacity, nodes)
        if spots is None:
            return None
        compute = min(capacity.nodes[number].compute for _, number, _ in spots)
        return Fit(tuple(spots), compute, ask.counts == Ask.of(entry.request).counts)

    @cached_property
    def _typical(self) -> TypicalAsks:
        return typical_asks(self._others())

    def _sizes(self, entry: Entry) -> list[Ask]:
        whole, fewest = Ask.of(entry.request), Ask.of(entry.request, is_fewest=True)
        steps = max(most - least for most, least in zip(whole.counts, fewest.counts, strict=True))
        return [
            Ask(
                whole.groups,
                tuple(
                    least + (most - least) * step // steps
                    for most, least in zip(whole.counts, fewest.counts, strict=True)
                ),
                whole.level,
                whole.is_required,
            )
            for step in range(steps, -1, -1)
        ]

    def eligible(self, entry: Entry, capacity: PoolCapacity) -> list[int | None]:
        """The sets of nodes that it takes, in order of preference; None is all that are usable."""
        wishes = entry.request.wishes
        if wishes.near or wishes.apart:  # where those stand changes within a pass
            return eligible_sets(wishes, capacity, self._standing.get(capacity.pool.name, {}))
        key = capacity.pool.name, entry.kind
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = eligible_sets(wishes, capacity, {})
        return found


def amount(entry: Entry, spots: Sequence[Spot]) -> Resources:
    """What a gang at these spots holds."""
    total = Resources()
    for group, _, workers in spots:
        total = total + entry.request.worker_groups[group].each * workers
    return total


def lacks_storage(entry: Entry, capacity: PoolCapacity) -> str:
    """What the pool's shared storage lacks for the gang; empty if nothing."""
    request, pool = entry.request, capacity.pool
    for asked, free, size, what in (
        (request.storage_gib, capacity.storage_gib, pool.storage_gib, "GiB"),
        (request.storage_gbps, capacity.storage_gbps, pool.storage_gbps, "Gbit/s"),
    ):
        if size and asked > free + TINY:
            return f"asks {asked:g} {what} of the shared storage of pool '{pool.name}', which has {free:g} of {size:g}"
    return ""


def lacks_power(spots: Sequence[Spot], capacity: PoolCapacity) -> str:
    """By how much the pool's power cap would be passed; empty if not."""
    cap = capacity.pool.power_cap_w
    more = capacity.new_watts(number for _, number, _ in spots) if cap else 0.0
    if not cap or capacity.watts + more <= cap + TINY:
        return ""
    return (
        f"would draw {more:g} W more; gang pool '{capacity.pool.name}' draws {capacity.watts:g} W of at most {cap:g} W "
        f"([pool.{capacity.pool.name}] power_cap_w)"
    )


def still_fits(entry: Entry, spots: Sequence[Spot], capacity: PoolCapacity) -> bool:
    """True if these very spots are free in another capacity of the pool."""
    asked: dict[int, Resources] = {}
    for group, number, workers in spots:
        each = entry.request.worker_groups[group].each
        if capacity.table(each).by_node[number] < workers:
            return False
        asked[number] = asked.get(number, Resources()) + each * workers
    if lacks_storage(entry, capacity):
        return False
    if len(asked) == len(spots):
        return True
    return all(amount.fits_in(capacity.free_of(number)) for number, amount in asked.items())
