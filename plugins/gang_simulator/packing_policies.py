"""What packing can be compared with: preferences between placements, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gang_scheduler.devices import MILLI
from gang_scheduler.fragmentation import TypicalAsks
from gang_scheduler.sharing import NodeShare, Preference, Score, ShareAsk, fits


class GradientDescent:
    """Fragmentation Gradient Descent as published (Weng et al., USENIX ATC 2023).

    A node's waste for a typical ask is all that is free if the ask does not fit, else what is free on devices with
    less room than it asks for. No typical ask is dropped, and what the paper leaves open, the choice between equal
    scores, goes to the node with the least free GPU.
    """

    def __init__(self, times: Mapping[ShareAsk, int]) -> None:
        """`times`: how often each ask came in the workload's history."""
        self._times = {ask: count for ask, count in times.items() if ask.gpus}
        self._waste: dict[NodeShare, int] = {}

    def waste(self, shape: NodeShare) -> int:
        """Thousandths of devices that are fragments, summed over the asks of the history."""
        known = self._waste.get(shape)
        if known is None:
            free = shape.gpu_free_milli
            known = 0
            for ask, count in self._times.items():
                least = ask.gpu_milli if fits(shape, ask) else MILLI + 1
                known += count * sum(milli for milli in free if milli < least)
            self._waste[shape] = known
        return known

    def score(self, before: NodeShare, after: NodeShare) -> Score:
        """How much the waste grows, then how much of the node's devices is left free."""
        return self.waste(after) - self.waste(before), sum(after.gpu_free_milli)


class BestFit:
    """Least left free: CPUs and GPUs, each as a part of the largest node's, weighted alike (as in the same paper)."""

    def __init__(self, nodes: Sequence[NodeShare]) -> None:
        """`nodes`, while empty."""
        self._most_cpu = max((node.cpu_free_milli for node in nodes), default=0) or 1
        self._most_gpu = max((sum(node.gpu_free_milli) for node in nodes), default=0) or 1

    def score(self, before: NodeShare, after: NodeShare) -> Score:  # noqa: ARG002 - only what is left counts
        """The sum of both parts, over their common denominator."""
        return (after.cpu_free_milli * self._most_gpu + sum(after.gpu_free_milli) * self._most_cpu,)


class FirstFit:
    """The first node by name that holds the ask, and its fullest device that does."""

    def score(self, before: NodeShare, after: NodeShare) -> Score:  # noqa: ARG002 - all are equal
        """Nothing to choose."""
        return ()


# Made from the workload's history and the empty nodes.
POLICIES: Mapping[str, Callable[[Counter[ShareAsk], Sequence[NodeShare]], Preference]] = {
    "fill": lambda history, _: TypicalAsks(history),
    "fgd": lambda history, _: GradientDescent(history),
    "best-fit": lambda _, nodes: BestFit(nodes),
    "first-fit": lambda _, __: FirstFit(),
}
DEFAULT_POLICY = "fill"
