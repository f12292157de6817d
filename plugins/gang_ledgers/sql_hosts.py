"""Nodes: registered by whoever serves them, closed while their host goes down."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from gang_ledgers.ledger import HostTaken, NodeRecord
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_rows import key_of, with_attempt
from gang_ledgers.sql_tables import attempts, nodes, submissions
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import HOLDS_CAPACITY
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import NodeView

_HOLDING = [state.value for state in HOLDS_CAPACITY]


def is_registered(connection: Connection, node: NodeRecord) -> bool:
    """True if the node is known exactly so."""
    row = _find(connection, node)
    return row is not None and _size(row) == (node.host_id, node.cpus, node.memory_gib, node.gpus)


def register(change: Change, node: NodeRecord) -> None:
    """Write the node; it may move to another host only while nothing holds slots on the old one."""
    row = _find(change.connection, node)
    values = {"host_id": node.host_id, "cpus": node.cpus, "memory_gib": node.memory_gib, "gpus": node.gpus}
    if row is None:
        change.connection.execute(insert(nodes).values(pool=node.pool, node=node.node, **values))
        return
    if row.host_id != node.host_id:
        held = _held_by(change, row.host_id)
        if held:
            names = ", ".join(str(key) for key in held)
            raise HostTaken(
                f"node '{node.node}' of gang pool '{node.pool}' is to be host {node.host_id}; it is host "
                f"{row.host_id}, which still holds {names}. Run Phalanx there, and end those gangs first"
            )
    is_here = (nodes.c.pool == node.pool) & (nodes.c.node == node.node)
    change.connection.execute(update(nodes).where(is_here).values(**values))


def _find(connection: Connection, node: NodeRecord) -> Row[Any] | None:
    query = select(nodes).where(nodes.c.pool == node.pool, nodes.c.node == node.node)
    return connection.execute(query).one_or_none()


def _size(row: Row[Any]) -> tuple[str, float, float, int]:
    return row.host_id, row.cpus, row.memory_gib, row.gpus


def _held_by(change: Change, host_id: str) -> list[AttemptKey]:
    query = with_attempt().where(submissions.c.state.in_(_HOLDING), attempts.c.host_id == host_id)
    return [key_of(row) for row in change.connection.execute(query)]


def all_nodes(connection: Connection) -> list[NodeView]:
    """Every node, by pool and name."""
    return [
        NodeView(row.pool, row.node, Resources(row.cpus, row.memory_gib, row.gpus), row.is_cordoned, row.cordon_reason)
        for row in connection.execute(select(nodes).order_by(nodes.c.pool, nodes.c.node))
    ]


def close(change: Change, host_id: str, why: str) -> list[AttemptKey]:
    """Cordon the host's nodes and ask its attempts to stop; without a release, so they are queued again."""
    change.connection.execute(
        update(nodes).where(nodes.c.host_id == host_id).values(is_cordoned=True, cordon_reason=why)
    )
    query = with_attempt().where(submissions.c.state.in_(_HOLDING), attempts.c.host_id == host_id)
    rows = change.connection.execute(query).all()
    for row in rows:
        if not row.stop_is_requested:
            change.set(row, stop_is_requested=True, stop_why=why)
    return [key_of(row) for row in rows]


def reopen(change: Change, host_id: str) -> None:
    """Lift the host's cordons."""
    change.connection.execute(
        update(nodes).where(nodes.c.host_id == host_id).values(is_cordoned=False, cordon_reason="")
    )
