"""What workers ask for and nodes offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Sums of fractions of a slot miss whole numbers by a few last bits; no real request is this small.
TINY = 1e-9
PLENTY = 1_000_000  # workers that ask nothing of a node

Profiles = tuple[tuple[str, int], ...]
Amounts = Mapping[str, float]  # by resource


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of each schedulable resource; comparisons are per component.

    CPUs are whole slots or fractions of one, memory and scratch space are in GiB, GPUs are whole devices. `gpu_share`
    is the part of one device that a worker asks for (0 to 1, memory and compute alike); of a total it is the sum of
    such parts. `mig` counts MIG instances by profile, sorted by profile (`(("1g.10gb", 2),)`).
    """

    cpus: float = 0.0
    memory_gib: float = 0.0
    gpus: int = 0
    scratch_gib: float = 0.0
    gpu_share: float = 0.0
    mig: Profiles = ()

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpus + other.cpus,
            self.memory_gib + other.memory_gib,
            self.gpus + other.gpus,
            self.scratch_gib + other.scratch_gib,
            self.gpu_share + other.gpu_share,
            _added(self.mig, other.mig, 1) if self.mig or other.mig else (),
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpus - other.cpus,
            self.memory_gib - other.memory_gib,
            self.gpus - other.gpus,
            self.scratch_gib - other.scratch_gib,
            self.gpu_share - other.gpu_share,
            _added(self.mig, other.mig, -1) if self.mig or other.mig else (),
        )

    def __mul__(self, count: int) -> Resources:
        return Resources(
            self.cpus * count,
            self.memory_gib * count,
            self.gpus * count,
            self.scratch_gib * count,
            self.gpu_share * count,
            tuple((profile, each * count) for profile, each in self.mig) if self.mig else (),
        )

    def __str__(self) -> str:
        amounts = [
            (self.cpus, "CPU", "CPUs"),
            (self.memory_gib, "GiB", "GiB"),
            (self.gpus, "GPU", "GPUs"),
            (self.gpu_share, "of a GPU", "shared GPUs"),
            (self.scratch_gib, "GiB scratch", "GiB scratch"),
        ]
        said = [(f"{amount:.6g}", one, many) for amount, one, many in amounts if amount > TINY]
        named = [f"{amount} {one if float(amount) <= 1 else many}" for amount, one, many in said]
        named += [f"{count} x MIG {profile}" for profile, count in self.mig if count]
        return ", ".join(named) or "0 CPUs"

    @property
    def gpu_count(self) -> float:
        """Whole devices and shares of devices together; MIG instances are counted by their profile, not here."""
        return self.gpus + self.gpu_share

    @property
    def amounts(self) -> Amounts:
        """What quotas count of it."""
        asked = {"gpus": self.gpu_count, "cpus": self.cpus, "memory_gib": self.memory_gib}
        return {resource: amount for resource, amount in asked.items() if amount > 0}

    def fits_in(self, free: Resources) -> bool:
        """True if every component is at most what is free; shares of devices are taken from whole free ones too."""
        return (
            self.cpus <= free.cpus + TINY
            and self.memory_gib <= free.memory_gib + TINY
            and self.gpus <= free.gpus
            and self.gpu_count <= free.gpu_count + TINY
            and self.scratch_gib <= free.scratch_gib + TINY
            and (not self.mig or _holds(free.mig, self.mig))
        )

    def times_in(self, free: Resources) -> int:
        """How many such amounts fit side by side into `free` (a large number if this asks nothing)."""
        have = dict(free.mig)
        pairs = [
            (self.cpus, free.cpus),
            (self.memory_gib, free.memory_gib),
            (self.gpus, free.gpus),
            (self.scratch_gib, free.scratch_gib),
            (self.gpu_count, free.gpu_count),
            *((count, have.get(profile, 0)) for profile, count in self.mig),
        ]
        counts = [int((held + TINY) // ask) for ask, held in pairs if ask > 0]
        return max(0, min(counts)) if counts else PLENTY


def _added(
    left: tuple[tuple[str, int], ...], right: tuple[tuple[str, int], ...], sign: int
) -> tuple[tuple[str, int], ...]:
    counts = dict(left)
    for profile, count in right:
        counts[profile] = counts.get(profile, 0) + sign * count
    return tuple(sorted(counts.items()))


def _holds(free: Profiles, asked: Profiles) -> bool:
    have = dict(free)
    return all(count <= have.get(profile, 0) for profile, count in asked)
