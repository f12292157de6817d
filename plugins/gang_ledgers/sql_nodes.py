"""Nodes as rows and back: what is registered of them, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, select

from gang_ledgers.ledger import ConditionState, NodeCondition, NodeRecord
from gang_ledgers.sql_tables import conditions, nodes
from gang_scheduler.node import NodeState, NodeView
from gang_scheduler.resources import Resources

_COLUMNS = ("pool", "node", "host_id", "cpus", "memory_gib", "gpus")
_RECORD = TypeAdapter(NodeRecord)
# Of several conditions the one that makes the most of it decides.
_GRAVEST_FIRST = (NodeState.FAULTY, NodeState.DRAINING, NodeState.UNKNOWN, NodeState.CORDONED)


def values_of(node: NodeRecord) -> dict[str, Any]:
    """The columns of the row, its key included."""
    facts = {name: value for name, value in asdict(node).items() if name not in _COLUMNS}
    return {name: getattr(node, name) for name in _COLUMNS} | {"facts": json.dumps(facts, sort_keys=True)}


def record_of(row: Row[Any]) -> NodeRecord:
    """The node as it was registered."""
    given = {name: getattr(row, name) for name in _COLUMNS} | json.loads(row.facts)
    return _RECORD.validate_python(given)


def condition_of(row: Row[Any]) -> NodeCondition:
    """The condition again."""
    return NodeCondition(
        pool=row.pool,
        node=row.node,
        kind=row.kind,
        state=ConditionState(row.state),
        who=row.who,
        why=row.why,
        effect=NodeState(row.effect),
        since=row.since,
    )


def effect_of(condition: NodeCondition) -> NodeState:
    """What the condition makes of its node now."""
    if condition.state is ConditionState.CLEARED or condition.effect is NodeState.READY:
        return NodeState.READY
    return condition.effect if condition.state is ConditionState.SET else NodeState.UNKNOWN


def to_view(record: NodeRecord, said: Sequence[NodeCondition]) -> NodeView:
    """The node as `plan` sees it, by what is said of it."""
    effects = {condition.kind: effect_of(condition) for condition in said}
    state = next((state for state in _GRAVEST_FIRST if state in effects.values()), NodeState.READY)
    whys = [condition.why for condition in said if effects[condition.kind] is not NodeState.READY]
    return NodeView(
        pool=record.pool,
        node=record.node,
        capacity=Resources(record.cpus, record.memory_gib, record.gpus, record.scratch_gib, mig=record.mig),
        is_cordoned=state is not NodeState.READY,
        cordon_reason="; ".join(dict.fromkeys(whys)),
        state=state,
        location=record.location,
        labels=record.labels,
        gpu_model=record.gpu_model,
        gpu_memory_gib=record.gpu_memory_gib,
        compute=record.compute,
        is_spot=record.is_spot,
        region=record.region,
        site=record.site,
        provider=record.provider,
        fabric=record.fabric,
        link_gbps=record.link_gbps,
        price_per_hour=record.price_per_hour,
        watts=record.watts,
    )


def nodes_since(connection: Connection, version: int) -> list[NodeView]:
    """The nodes that have changed since that version of the ledger."""
    is_newer = nodes.c.version > version
    with_conditions = (
        select(conditions)
        .join(nodes, (nodes.c.pool == conditions.c.pool) & (nodes.c.node == conditions.c.node))
        .where(is_newer, conditions.c.state != ConditionState.CLEARED.value)
        .order_by(conditions.c.kind)
    )
    said: dict[tuple[str, str], list[NodeCondition]] = {}
    rows = connection.execute(select(nodes).where(is_newer)).all()
    for row in connection.execute(with_conditions) if rows else ():
        said.setdefault((row.pool, row.node), []).append(condition_of(row))
    return [to_view(record_of(row), said.get((row.pool, row.node), ())) for row in rows]


def in_order(views: Iterable[NodeView]) -> tuple[NodeView, ...]:
    """By pool and name."""
    return tuple(sorted(views, key=lambda view: (view.pool, view.node)))


def all_conditions(connection: Connection) -> list[NodeCondition]:
    """All that are not cleared."""
    query = select(conditions).where(conditions.c.state != ConditionState.CLEARED.value)
    query = query.order_by(conditions.c.pool, conditions.c.node, conditions.c.kind)
    return [condition_of(row) for row in connection.execute(query)]
