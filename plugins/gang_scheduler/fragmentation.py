"""How much of a node's free devices typical asks could not use, and the preference for keeping that little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gang_scheduler.sharing import NodeShare, Score, ShareAsk


class TypicalAsks:
    """The asks of a workload's history and how often each came: what a free device is likely to be wanted for.

    The waste of a node for one ask is what stays free once as many such asks are placed side by side as the node
    holds; its fragmentation is the mean of that over the history. So a remainder that no such ask fits into counts, and
    so does a whole device for which the CPUs will not suffice. Fragmentation Gradient Descent (Weng et al., USENIX ATC
    2023) counts instead all devices with room for one more such ask as usable to their last thousandth, and sees a
    lack of CPUs only when not one more ask fits. A placement's score is how much it raises the fragmentation; between
    equals the node with the least free GPU is chosen, so that empty ones stay whole.

    The history is all that it knows: not what is asked next, nor in what order. Every ask of it counts, however rare;
    dropping rare ones would drop just those that need a whole node. Asks without a GPU say nothing about GPUs and are
    left out. Without any history no placement raises the fragmentation, and the second rule alone decides.
    """

    def __init__(self, times: Mapping[ShareAsk, int]) -> None:
        """`times`: how often each ask came."""
        gpu_asks = {ask: count for ask, count in times.items() if ask.gpus and count > 0}
        self.count = sum(gpu_asks.values())
        # By what is asked of the devices: (CPUs, memory, thousandths of all such asks of the history taken together).
        self._by_gpus: dict[tuple[int, int, frozenset[str]], list[tuple[int, int, int]]] = {}
        for ask, count in sorted(gpu_asks.items(), key=lambda item: _order(item[0])):
            key = ask.gpus, ask.gpu_milli, ask.models
            self._by_gpus.setdefault(key, []).append((ask.cpu_milli, ask.memory_mib, count * ask.total_milli))
        self._waste: dict[NodeShare, int] = {}
        self._groups: dict[tuple[tuple[int, ...], str], list[tuple[int, list[tuple[int, int, int]]]]] = {}

    @classmethod
    def of(cls, history: Iterable[ShareAsk]) -> TypicalAsks:
        """Count the asks of a history."""
        return cls(Counter(history))

    def waste(self, shape: NodeShare) -> int:
        """Thousandths of devices that would stay free, summed over the asks of the history."""
        known = self._waste.get(shape)
        if known is None:
            known = self._waste[shape] = sum(shape.gpu_free_milli) * self.count - self._usable(shape)
        return known

    def score(self, before: NodeShare, after: NodeShare) -> Score:
        """How much the waste grows, then how much of the node's devices is left free."""
        return self.waste(after) - self.waste(before), sum(after.gpu_free_milli)

    def _usable(self, shape: NodeShare) -> int:
        cpu_milli, memory_mib = shape.cpu_free_milli, shape.memory_free_mib
        usable = 0
        for by_gpus, asks in self._held(shape):
            for cpu, memory, amount in asks:
                held = by_gpus
                if cpu * held > cpu_milli:
                    held = cpu_milli // cpu
                if memory * held > memory_mib:
                    held = memory_mib // memory
                usable += held * amount
        return usable

    def _held(self, shape: NodeShare) -> list[tuple[int, list[tuple[int, int, int]]]]:
        """How many asks of each group the devices alone would hold; groups of which they hold none are left out."""
        key = shape.gpu_free_milli, shape.model
        known = self._groups.get(key)
        if known is None:
            known = self._groups[key] = [
                (held, asks)
                for (gpus, gpu_milli, models), asks in self._by_gpus.items()
                if (not models or shape.model in models)
                and (held := sum(free // gpu_milli for free in shape.gpu_free_milli) // gpus)
            ]
        return known


def fragmentation(state: NodeShare, typical: TypicalAsks) -> float:
    """Thousandths of the node's devices that typical asks are expected to leave unused; 0 without a history."""
    return typical.waste(state.shape) / typical.count if typical.count else 0.0


def _order(ask: ShareAsk) -> tuple[int, int, int, int, list[str]]:
    return ask.gpus, ask.gpu_milli, ask.cpu_milli, ask.memory_mib, sorted(ask.models)
