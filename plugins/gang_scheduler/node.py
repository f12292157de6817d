"""Nodes: what they hold, where they stand, and whether they may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gang_scheduler.resources import Resources


class NodeState(StrEnum):
    """Whether a node may be used; only a ready one takes new workers."""

    READY = "ready"
    CORDONED = "cordoned"  # keeps what runs on it
    DRAINING = "draining"  # what runs on it is asked to stop with a checkpoint, then requeued elsewhere
    FAULTY = "faulty"  # like draining: a fault was found
    UNKNOWN = "unknown"  # out of contact: keeps what runs on it, whose death is not proven


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of a pool.

    `location` names its domain at each of its pool's levels, widest first, e.g. `("spine-0", "leaf-3")` in a pool with
    the levels `("spine", "leaf")`; the pool and the node itself are levels of their own and are not repeated.
    `compute` is the speed of one of its GPUs relative to any fixed one; `price_per_hour` is in the pool's currency.
    """

    pool: str
    node: str
    capacity: Resources
    is_cordoned: bool = False
    cordon_reason: str = ""
    state: NodeState = NodeState.READY
    location: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_model: str = ""
    gpu_memory_gib: float = 0.0
    compute: float = 1.0
    is_spot: bool = False
    region: str = ""
    site: str = ""
    provider: str = ""
    fabric: str = ""
    link_gbps: float = 0.0
    price_per_hour: float = 0.0
    watts: float = 0.0

    @property
    def is_usable(self) -> bool:
        """True if it may take new workers."""
        return self.state is NodeState.READY and not self.is_cordoned

    @property
    def is_to_be_left(self) -> bool:
        """True if what runs on it has to go elsewhere."""
        return self.state in (NodeState.DRAINING, NodeState.FAULTY)
