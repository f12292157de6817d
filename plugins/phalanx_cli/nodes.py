"""`phalanx nodes`: what there is to run on, what is said of it, and cordons set by hand."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from embedded_stack.launcher import home_of
from gang_controller.wiring import open_ledger
from gang_ledgers.ledger import CORDON, ConditionState, Ledger, NodeCondition, UnknownNode
from gang_scheduler.gang_state import HOLDS_CAPACITY
from gang_scheduler.node import NodeState, NodeView
from phalanx_cli.output import Home, Json, Who, Why, print_json, print_table, say, who_asks
from phalanx_cli.reading import reading

app = typer.Typer(help="Nodes: list them, and take them out of use or back.", no_args_is_help=True)

NodeName = Annotated[str, typer.Argument(help="The node's name, as `phalanx nodes list` shows it.", metavar="NODE")]
Pool = Annotated[str, typer.Option("--pool", help="Its gang pool; needed if several pools have a node so called.")]

_Key = tuple[str, str]


@app.command("list")
def list_nodes(pool: Pool = "", home: Home = None, as_json: Json = False) -> None:
    """List nodes with their state, and why one is out of use."""
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        nodes = [node for node in ledger.nodes() if pool in ("", node.pool)]
        said = _by_node(ledger.conditions())
        gangs = _gangs_on(ledger)
    if as_json:
        print_json([_document(node, said.get(_key(node), []), gangs.get(_key(node), [])) for node in nodes])
        return
    rows = [(n.pool, n.node, n.state, n.capacity, len(gangs.get(_key(n), [])), n.cordon_reason or None) for n in nodes]
    print_table(("pool", "node", "state", "capacity", "gangs", "why"), rows, "no node is registered")


@app.command("cordon")
def cordon(
    node: NodeName,
    why: Why,
    drain: Annotated[bool, typer.Option("--drain", help="Stop what runs there, with a checkpoint, as well.")] = False,
    pool: Pool = "",
    who: Who = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Let no gang start on a node; what runs there goes on, or goes elsewhere with --drain."""
    effect = NodeState.DRAINING if drain else NodeState.CORDONED
    _set(node, pool, ConditionState.SET, effect, who_asks(who), why, home, as_json)


@app.command("uncordon")
def uncordon(
    node: NodeName, why: Why, pool: Pool = "", who: Who = "", home: Home = None, as_json: Json = False
) -> None:
    """Lift the cordon that a person has set; what else is said of the node stays, and is shown."""
    _set(node, pool, ConditionState.CLEARED, NodeState.CORDONED, who_asks(who), why, home, as_json)


def _set(
    name: str, pool: str, state: ConditionState, effect: NodeState, who: str, why: str, home: Home, as_json: bool
) -> None:
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        pool = _find(ledger, name, pool).pool
        is_new = ledger.set_condition(NodeCondition(pool, name, CORDON, state, who, why, effect))
        node = _find(ledger, name, pool)
        said = _by_node(ledger.conditions()).get((pool, name), [])
        gangs = _gangs_on(ledger).get((pool, name), [])
    if as_json:
        print_json({**_document(node, said, gangs), "has_changed": is_new})
        return
    because = f": {node.cordon_reason}" if node.cordon_reason else ""
    say(f"node '{name}' of gang pool '{pool}' is {'now' if is_new else 'already'} {node.state}{because}")
    if gangs and node.state is not NodeState.READY:
        say(f"{', '.join(gangs)} {'leave it' if node.is_to_be_left else 'stay on it until they end'}")


def _find(ledger: Ledger, name: str, pool: str) -> NodeView:
    nodes = ledger.nodes()
    found = [node for node in nodes if node.node == name and pool in ("", node.pool)]
    if len(found) == 1:
        return found[0]
    if found:
        pools = ", ".join(node.pool for node in found)
        raise UnknownNode(f"gang pools {pools} each have a node '{name}'; say which one with --pool")
    where = f" in gang pool '{pool}'" if pool else ""
    known = ", ".join(f"{node.node} ({node.pool})" for node in nodes[:8]) or "none"
    raise UnknownNode(f"no node '{name}' is registered{where}; there are: {known}. `phalanx nodes list` shows all")


def _key(node: NodeView) -> _Key:
    return node.pool, node.node


def _by_node(conditions: list[NodeCondition]) -> dict[_Key, list[NodeCondition]]:
    found: dict[_Key, list[NodeCondition]] = {}
    for condition in conditions:
        found.setdefault((condition.pool, condition.node), []).append(condition)
    return found


def _gangs_on(ledger: Ledger) -> dict[_Key, list[str]]:
    found: dict[_Key, list[str]] = {}
    for gang in ledger.list_gangs(live_only=True, limit=10_000):
        if gang.placement is not None and gang.state in HOLDS_CAPACITY:
            for node in gang.placement.nodes:
                found.setdefault((gang.placement.pool, node), []).append(gang.gang_id)
    return found


def _document(node: NodeView, said: list[NodeCondition], gangs: list[str]) -> dict[str, Any]:
    return {
        "pool": node.pool,
        "node": node.node,
        "state": node.state,
        "is_usable": node.is_usable,
        "why": node.cordon_reason or None,
        "capacity": node.capacity,
        "gpu_model": node.gpu_model or None,
        "location": node.location,
        "labels": dict(node.labels),
        "gangs": gangs,
        "conditions": [
            {name: getattr(each, name) for name in ("kind", "state", "effect", "who", "why", "since")} for each in said
        ],
    }
