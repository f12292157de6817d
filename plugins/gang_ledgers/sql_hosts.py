"""Nodes: registered by whoever serves them, closed while their host goes down, and what is said of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from gang_ledgers.ledger import HOST_CLOSED, ConditionState, HostTaken, NodeCondition, NodeRecord, UnknownNode
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_nodes import record_of, values_of
from gang_ledgers.sql_rows import key_of, with_attempt
from gang_ledgers.sql_tables import attempts, conditions, nodes, submissions
from gang_scheduler.gang import AttemptKey
from gang_scheduler.gang_state import HOLDS_CAPACITY

_HOLDING = [state.value for state in HOLDS_CAPACITY]
_NAMED_AT_MOST = 8


def is_registered(connection: Connection, record: NodeRecord) -> bool:
    """True if the node is known exactly so."""
    row = _find(connection, record.node.pool, record.node.node)
    return row is not None and record_of(row) == record


def register(change: Change, record: NodeRecord) -> None:
    """Write the node; it may move to another host only while nothing holds slots on the old one."""
    node = record.node
    row = _find(change.connection, node.pool, node.node)
    values = values_of(record) | {"version": change.version}
    if row is None:
        change.connection.execute(insert(nodes).values(**values))
        return
    if row.host_id != record.host_id:
        held = _held_by(change, row.host_id)
        if held:
            names = ", ".join(str(key) for key in held)
            raise HostTaken(
                f"node '{node.node}' of gang pool '{node.pool}' is to be host {record.host_id}; it is host "
                f"{row.host_id}, which still holds {names}. Run Phalanx there, and end those gangs first"
            )
    change.connection.execute(update(nodes).where(_is_node(node.pool, node.node)).values(**values))


def _find(connection: Connection, pool: str, node: str) -> Row[Any] | None:
    return connection.execute(select(nodes).where(_is_node(pool, node))).one_or_none()


def _is_node(pool: str, node: str) -> Any:
    return (nodes.c.pool == pool) & (nodes.c.node == node)


def _held_by(change: Change, host_id: str) -> list[AttemptKey]:
    query = with_attempt().where(submissions.c.state.in_(_HOLDING), attempts.c.host_id == host_id)
    return [key_of(row) for row in change.connection.execute(query)]


def set_condition(change: Change, condition: NodeCondition) -> bool:
    """Write the condition beside those of other kinds; False if it stood so before."""
    if _find(change.connection, condition.pool, condition.node) is None:
        raise UnknownNode(_who_is_there(change.connection, condition))
    is_it = (
        (conditions.c.pool == condition.pool)
        & (conditions.c.node == condition.node)
        & (conditions.c.kind == condition.kind)
    )
    row = change.connection.execute(select(conditions).where(is_it)).one_or_none()
    said = {
        "state": condition.state.value,
        "effect": condition.effect.value,
        "who": condition.who,
        "why": condition.why,
    }
    was = ConditionState.CLEARED.value if row is None else row.state
    if was == said["state"] and (row is None or was == ConditionState.CLEARED.value or said == _said(row)):
        return False
    key = {"pool": condition.pool, "node": condition.node, "kind": condition.kind}
    if row is None:
        change.connection.execute(insert(conditions).values(**key, **said, since=change.now))
    else:
        change.connection.execute(update(conditions).where(is_it).values(**said, since=change.now))
    _touch(change, _is_node(condition.pool, condition.node))
    return True


def _said(row: Row[Any]) -> dict[str, str]:
    return {"state": row.state, "effect": row.effect, "who": row.who, "why": row.why}


def _touch(change: Change, which: Any) -> None:
    change.connection.execute(update(nodes).where(which).values(version=change.version))


def _who_is_there(connection: Connection, asked: NodeCondition) -> str:
    query = select(nodes.c.pool, nodes.c.node).order_by(nodes.c.pool, nodes.c.node)
    known = [f"'{row.node}' of '{row.pool}'" for row in connection.execute(query.limit(_NAMED_AT_MOST + 1))]
    more = ", ..." if len(known) > _NAMED_AT_MOST else ""
    there = f"there are {', '.join(known[:_NAMED_AT_MOST])}{more}" if known else "no node is registered"
    return f"no node '{asked.node}' in gang pool '{asked.pool}'; {there}"


def close(change: Change, host_id: str, why: str) -> list[AttemptKey]:
    """Cordon the host's nodes and ask its attempts to stop; without a release, so they are queued again."""
    for row in change.connection.execute(select(nodes).where(nodes.c.host_id == host_id)).all():
        set_condition(change, _host_closed(row, ConditionState.SET, why))
    query = with_attempt().where(submissions.c.state.in_(_HOLDING), attempts.c.host_id == host_id)
    rows = change.connection.execute(query).all()
    for row in rows:
        if not row.stop_is_requested:
            change.set(row, stop_is_requested=True, stop_why=why)
    return [key_of(row) for row in rows]


def reopen(change: Change, host_id: str) -> None:
    """Lift what `close` has set."""
    for row in change.connection.execute(select(nodes).where(nodes.c.host_id == host_id)).all():
        set_condition(change, _host_closed(row, ConditionState.CLEARED, "the host serves again"))


def _host_closed(row: Row[Any], state: ConditionState, why: str) -> NodeCondition:
    return NodeCondition(row.pool, row.node, HOST_CLOSED, state, who="its host", why=why)
