"""Which node, and which of its devices, a share of a GPU (or whole GPUs, or no GPU) goes to.

The interface, for a planner:

    typical = TypicalAsks.of(asks of the past)               # gang_scheduler.fragmentation; built once a pass
    chosen = choose(((name, NodeShare(...)), ...), ShareAsk(...), typical)
    if chosen is not None:
        name, devices = chosen                               # device numbers, ascending; () if no GPU was asked for
        states[name] = taken(states[name], ask, devices)     # before the next worker is placed

All amounts are whole numbers (thousandths of a device, thousandths of a CPU, MiB), so scores are exact and no decision
hangs on rounding. A device that is held whole, or as MIG instances, has 0 thousandths free. Of the nodes on which the
ask fits, the one with the least score is chosen. Between equal scores: the fullest device, then the first name. The
order in which nodes are given makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gang_scheduler.devices import MILLI

Score = tuple[int, ...]


class NodeShare(NamedTuple):
    """What is free on a node: thousandths of each of its devices by device number, and CPUs and memory.

    A tuple, because states are compared and looked up many times a decision.
    """

    gpu_free_milli: tuple[int, ...]
    cpu_free_milli: int
    memory_free_mib: int
    model: str = ""

    @property
    def shape(self) -> NodeShare:
        """The same with devices ordered by what is free: nodes of one shape are scored alike."""
        return NodeShare(tuple(sorted(self.gpu_free_milli)), self.cpu_free_milli, self.memory_free_mib, self.model)


@dataclass(frozen=True, slots=True)
class ShareAsk:
    """What one worker asks for: `gpu_milli` thousandths of each of `gpus` devices; less than 1000 only of a single one.

    `models` are the GPU models that will do; none named: any.

    Raises:
        ValueError: an amount is negative, or it is neither whole devices, nor a share of one, nor no device.
    """

    gpus: int
    gpu_milli: int
    cpu_milli: int = 0
    memory_mib: int = 0
    models: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.gpus, self.gpu_milli, self.cpu_milli, self.memory_mib) < 0:
            raise ValueError(f"an amount is negative: {self}; at least 0 is allowed")
        is_share = self.gpus == 1 and 0 < self.gpu_milli < MILLI
        is_whole = self.gpus > 0 and self.gpu_milli == MILLI
        is_none = self.gpus == 0 and self.gpu_milli == 0
        if not (is_share or is_whole or is_none):
            raise ValueError(
                f"{self.gpu_milli} thousandths of each of {self.gpus} devices: allowed are no device (0 of 0), "
                f"1 to {MILLI - 1} of 1 device, or {MILLI} of each of several"
            )

    @property
    def total_milli(self) -> int:
        """Thousandths over all its devices."""
        return self.gpus * self.gpu_milli


class Preference(Protocol):
    """Which of two placements of an ask is better: the one with the smaller score."""

    def score(self, before: NodeShare, after: NodeShare) -> Score:
        """The score of a placement that leaves `after` of `before`; both are shapes."""
        ...


class Option(NamedTuple):
    """The best way to take an ask from a node of some shape; the smaller is the better one."""

    score: Score
    level_milli: int  # what the device has free before; MILLI where whole devices are taken, 0 where none


def fits(state: NodeShare, ask: ShareAsk) -> bool:
    """True if the node can hold the ask."""
    return (
        ask.cpu_milli <= state.cpu_free_milli
        and ask.memory_mib <= state.memory_free_mib
        and (not ask.models or state.model in ask.models or not ask.gpus)
        and sum(free >= ask.gpu_milli for free in state.gpu_free_milli) >= ask.gpus
    )


def taken(state: NodeShare, ask: ShareAsk, devices: Iterable[int]) -> NodeShare:
    """The state once the ask holds its part of these devices."""
    free = list(state.gpu_free_milli)
    for device in devices:
        free[device] -= ask.gpu_milli
    return NodeShare(
        tuple(free), state.cpu_free_milli - ask.cpu_milli, state.memory_free_mib - ask.memory_mib, state.model
    )


def devices_at(state: NodeShare, ask: ShareAsk, level_milli: int) -> tuple[int, ...]:
    """The lowest-numbered devices with so much free, as many as the ask needs."""
    return tuple(device for device, free in enumerate(state.gpu_free_milli) if free == level_milli)[: ask.gpus]


def best_option(shape: NodeShare, ask: ShareAsk, preference: Preference) -> Option | None:
    """The best way to take the ask from a node of this shape, or None if it does not fit."""
    if not fits(shape, ask):
        return None
    return min(
        Option(preference.score(shape, taken(shape, ask, devices_at(shape, ask, level)).shape), level)
        for level in _levels(shape, ask)
    )


def choose(
    nodes: Iterable[tuple[str, NodeShare]], ask: ShareAsk, preference: Preference
) -> tuple[str, tuple[int, ...]] | None:
    """The node and devices that the ask should get, or None if it fits nowhere."""
    options: dict[NodeShare, Option | None] = {}
    best: tuple[Option, str, NodeShare] | None = None
    for name, state in nodes:
        shape = state.shape
        if shape not in options:
            options[shape] = best_option(shape, ask, preference)
        option = options[shape]
        if option is not None and (best is None or (option, name) < best[:2]):
            best = option, name, state
    if best is None:
        return None
    option, name, state = best
    return name, devices_at(state, ask, option.level_milli)


def _levels(shape: NodeShare, ask: ShareAsk) -> Iterator[int]:
    """The different fillings of a device that the ask could be taken from, fullest first."""
    if not ask.gpus:
        yield 0
        return
    last = -1
    for free in shape.gpu_free_milli:
        if free >= ask.gpu_milli and free != last:
            last = free
            yield free
