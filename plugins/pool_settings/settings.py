"""All settings as the scheduler takes them, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from gang_scheduler.gang import GangRequest
from gang_scheduler.gang_queue import PriorityClass, QueueView
from gang_scheduler.node import NodeView
from gang_scheduler.policy import DEFAULT_POLICY, Policy
from gang_scheduler.pool import PoolView
from gang_scheduler.snapshot import GangView, Snapshot
from pool_settings.access import Access, queue_refusal
from pool_settings.cross_checks import LOCAL_POOL, OWN_LEVELS
from pool_settings.origins import Origins


@dataclass(frozen=True)
class GpuModel:
    """A GPU model; a device may be shared by at most `max_shares` workers, so by shares of 1 / max_shares or more."""

    name: str
    memory_gib: float
    compute: float
    max_shares: int


@dataclass(frozen=True)
class Settings:
    """What holds in this installation; without a settings file, the defaults.

    `nodes` are those that the file describes; of each, `cut_gpus` says how many devices are cut into MIG instances.
    """

    path: Path | None = None
    pools: tuple[PoolView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    cut_gpus: Mapping[tuple[str, str], int] = field(default_factory=dict)
    gpu_models: Mapping[str, GpuModel] = field(default_factory=dict)
    queues: tuple[QueueView, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    policy: Policy = DEFAULT_POLICY
    access: Access = field(default_factory=Access)
    origins: Origins = field(default_factory=Origins)

    # --- for the scheduler

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """The ledger's snapshot with these pools, queues and policy, and with the file's facts of its nodes.

        A node that the file describes and the ledger does not have is not added: nobody serves it.
        """
        return replace(
            snapshot,
            nodes=self.enrich(snapshot.nodes),
            pools=(*self.pools, *(pool for pool in snapshot.pools if pool.name not in self._pool_by_name)),
            queues=self._with_usage(snapshot.queues),
            policy=self.policy,
        )

    def enrich(self, nodes: Sequence[NodeView]) -> tuple[NodeView, ...]:
        """The ledger's nodes with the file's facts; amounts and state are the ledger's, which measures them."""
        if not self._node_by_name:
            return tuple(nodes)
        known = self._enriched_before
        found = []
        for node in nodes:
            key = (node.pool, node.node)
            before = known.get(key)
            if before is None or before[0] != node:
                before = known[key] = (node, self._enriched(node))
            found.append(before[1])
        return tuple(found)

    def snapshot(self, now: datetime | None = None, gangs: Sequence[GangView] = ()) -> Snapshot:
        """A cluster as the file describes it, for dry runs and simulations; `now` decides windows and tariffs."""
        return Snapshot(now or datetime.now(UTC), 0, self.nodes, tuple(gangs), self.pools, self.queues, self.policy)

    def node(self, pool: str, node: str) -> NodeView | None:
        """What the file says of a node."""
        return self._node_by_name.get((pool, node))

    # --- for those who ask

    def refusal(self, request: GangRequest) -> str | None:
        """Why the gang may not be asked for; None if it may."""
        return (
            queue_refusal(request, {queue.name: queue for queue in self.queues}, self._queue_places)
            or self.access.refusal(request)
            or self._unknown_level(request)
            or self._too_small_a_share(request)
        )

    def priority(self, asked: int | str) -> int:
        """The number of a priority that is given as one, or by the name of its class.

        Raises:
            LookupError: there is no such class.
        """
        if isinstance(asked, int):
            return asked
        found = {known.name: known.priority for known in self.priorities}
        if asked not in found:
            known = ", ".join(f"'{name}' ({priority})" for name, priority in found.items()) or "none"
            where = self.path or "pools.toml"
            raise LookupError(
                f"gang priority '{asked}' was asked; priority classes: {known} ({where} [priority]). "
                "Name one of these as gang_priority, give a number, or add the class"
            )
        return found[asked]

    # --- looked up often

    @cached_property
    def _node_by_name(self) -> Mapping[tuple[str, str], NodeView]:
        return {(node.pool, node.node): node for node in self.nodes}

    @cached_property
    def _enriched_before(self) -> dict[tuple[str, str], tuple[NodeView, NodeView]]:
        """What was made of each live node last time: from tick to tick nearly all are as they were."""
        return {}

    @cached_property
    def _pool_by_name(self) -> Mapping[str, PoolView]:
        return {pool.name: pool for pool in self.pools}

    @cached_property
    def _queue_places(self) -> Mapping[str, str]:
        return {queue.name: self.origins.place(("queue", queue.name)) for queue in self.queues}

    def _enriched(self, node: NodeView) -> NodeView:
        said = self._node_by_name.get((node.pool, node.node))
        if said is None:
            return node
        cut = self.cut_gpus.get((node.pool, node.node), 0)
        capacity = replace(
            node.capacity,
            gpus=max(0, node.capacity.gpus - cut),
            scratch_gib=node.capacity.scratch_gib or said.capacity.scratch_gib,
            mig=said.capacity.mig,
        )
        return replace(
            said,
            capacity=capacity,
            is_cordoned=node.is_cordoned,
            cordon_reason=node.cordon_reason,
            state=node.state,
            labels={**node.labels, **said.labels} if node.labels else said.labels,
        )

    def _with_usage(self, known: Sequence[QueueView]) -> tuple[QueueView, ...]:
        """The file's queues with the ledger's history of what they used, and those that only the ledger knows."""
        used = {queue.name: queue.usage for queue in known}
        ours = tuple(replace(queue, usage=used.get(queue.name, queue.usage)) for queue in self.queues)
        names = {queue.name for queue in ours}
        return (*ours, *(queue for queue in known if queue.name not in names))

    def _unknown_level(self, request: GangRequest) -> str | None:
        wish = request.topology
        if wish is None or not wish.is_required or wish.level in OWN_LEVELS or LOCAL_POOL in request.pools:
            return None
        levels = {pool: self._pool_by_name[pool].levels if pool in self._pool_by_name else () for pool in request.pools}
        if any(wish.level in known for known in levels.values()):
            return None
        listed = "; ".join(f"'{pool}': {', '.join(('pool', *known, 'node'))}" for pool, known in levels.items())
        return (
            f"gang '{request.gang_id}': requires one domain of level '{wish.level}'; its gang pools have {listed} "
            f"({self.path or 'pools.toml'} [pool.{request.gang_pool}] levels). Name one of these as topology"
        )

    def _too_small_a_share(self, request: GangRequest) -> str | None:
        shares = [group.each.gpu_share for group in request.worker_groups if group.each.gpu_share]
        if not shares or not self.nodes:
            return None
        wished = request.wishes.gpu_models
        for name, model in self.gpu_models.items():
            pools = self._pools_of_model.get(name, frozenset())
            if pools.isdisjoint(request.pools) or (wished and name not in wished):
                continue
            if min(shares) * model.max_shares < 1 - 1e-9:
                return (
                    f"gang '{request.gang_id}': asks {min(shares):g} of a GPU; a {name} may be shared by at most "
                    f"{model.max_shares}, so by {1 / model.max_shares:g} each ({self.origins.place(('gpu', name))} "
                    f"max_shares). Ask for more, or name other models as wishes.gpu_models"
                )
        return None

    @cached_property
    def _pools_of_model(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for node in self.nodes:
            found.setdefault(node.gpu_model, set()).add(node.pool)
        return {model: frozenset(pools) for model, pools in found.items()}
