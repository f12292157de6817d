"""What workers ask for and nodes offer."""

from __future__ import annotations

from dataclasses import dataclass

# Sums of fractions of a slot miss whole numbers by a few last bits; no real request is this small.
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of each schedulable resource; comparisons are per component.

    CPUs are whole slots or fractions of one, memory is in GiB, GPUs are whole devices.
    """

    cpus: float = 0.0
    memory_gib: float = 0.0
    gpus: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpus + other.cpus, self.memory_gib + other.memory_gib, self.gpus + other.gpus)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpus - other.cpus, self.memory_gib - other.memory_gib, self.gpus - other.gpus)

    def __mul__(self, count: int) -> Resources:
        return Resources(self.cpus * count, self.memory_gib * count, self.gpus * count)

    def __str__(self) -> str:
        amounts = [(self.cpus, "CPU", "CPUs"), (self.memory_gib, "GiB", "GiB"), (self.gpus, "GPU", "GPUs")]
        named = [f"{amount:.6g} {one if amount == 1 else many}" for amount, one, many in amounts if amount > TINY]
        return ", ".join(named) or "0 CPUs"

    def fits_in(self, free: Resources) -> bool:
        """True if every component is at most what is free."""
        return self.cpus <= free.cpus + TINY and self.memory_gib <= free.memory_gib + TINY and self.gpus <= free.gpus

    def times_in(self, free: Resources) -> int:
        """How many such amounts fit side by side into `free` (a large number if this asks nothing)."""
        counts = [
            int((have + TINY) // ask)
            for ask, have in (
                (self.cpus, free.cpus),
                (self.memory_gib, free.memory_gib),
                (self.gpus, free.gpus),
            )
            if ask > 0
        ]
        return max(0, min(counts)) if counts else 1_000_000
