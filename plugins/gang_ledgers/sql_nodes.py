"""Nodes as rows and back: what is registered of them, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, select

from gang_ledgers.ledger import ConditionState, NodeCondition, NodeRecord
from gang_ledgers.sql_tables import conditions, nodes
from gang_scheduler.node import NodeState, NodeView

_NODE = TypeAdapter(NodeView)
_SAID_BY_CONDITIONS = {"state", "is_cordoned", "cordon_reason"}
_NAMES = {"pool", "node"}
# Of several conditions the one that makes the most of it decides.
_GRAVEST_FIRST = (NodeState.FAULTY, NodeState.DRAINING, NodeState.UNKNOWN, NodeState.CORDONED)


def values_of(record: NodeRecord) -> dict[str, Any]:
    """The columns of the row, its key included."""
    node, capacity = record.node, record.node.capacity
    return {
        "pool": node.pool,
        "node": node.node,
        "host_id": record.host_id,
        "cpus": capacity.cpus,
        "memory_gib": capacity.memory_gib,
        "gpus": capacity.gpus,
        "facts": _NODE.dump_json(node, exclude=_SAID_BY_CONDITIONS | _NAMES).decode(),
    }


def record_of(row: Row[Any]) -> NodeRecord:
    """The node as it was registered; a row of the first schema has no facts beside its columns."""
    amounts = {"cpus": row.cpus, "memory_gib": row.memory_gib, "gpus": row.gpus}
    given = {"capacity": amounts} | json.loads(row.facts)
    return NodeRecord(row.host_id, _NODE.validate_python(given | {"pool": row.pool, "node": row.node}))


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
    return replace(
        record.node,
        is_cordoned=state is not NodeState.READY,
        cordon_reason="; ".join(dict.fromkeys(whys)),
        state=state,
    )


def nodes_since(connection: Connection, version: int) -> list[NodeRecord]:
    """The nodes that have changed since that version of the ledger, with what is said of them."""
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
    records = map(record_of, rows)
    return [
        replace(record, node=to_view(record, said.get((record.node.pool, record.node.node), ()))) for record in records
    ]


def in_order(views: Iterable[NodeView]) -> tuple[NodeView, ...]:
    """By pool and name."""
    return tuple(sorted(views, key=lambda view: (view.pool, view.node)))


def all_conditions(connection: Connection) -> list[NodeCondition]:
    """All that are not cleared."""
    query = select(conditions).where(conditions.c.state != ConditionState.CLEARED.value)
    query = query.order_by(conditions.c.pool, conditions.c.node, conditions.c.kind)
    return [condition_of(row) for row in connection.execute(query)]
