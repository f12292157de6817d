"""What every ledger does with nodes and with what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gang_ledgers.ledger import CORDON, ConditionState, Ledger, NodeCondition, NodeRecord, UnknownNode
from gang_scheduler.gang_state import GangState
from gang_scheduler.node import NodeState, NodeView
from gang_scheduler.resources import Resources
from tests.builders import HOST, a_claim, a_gang, a_node_record
from tests.ledger_steps import tick

XID = NodeCondition(
    "local", "localhost", "xid 79", ConditionState.SET, "kernel log", "GPU 3 fell off the bus", NodeState.FAULTY
)
BY_HAND = NodeCondition("local", "localhost", CORDON, ConditionState.SET, "ada", "a new fan")
DRAIN = replace(BY_HAND, effect=NodeState.DRAINING)
OUT_OF_CONTACT = replace(XID, kind="contact", effect=NodeState.UNKNOWN, why="silent for 90 s")
WARNING = replace(XID, kind="ecc", effect=NodeState.READY, why="two corrected errors")


def only_node(ledger: Ledger) -> NodeView:
    (node,) = ledger.nodes()
    assert ledger.snapshot().nodes == (node,)
    return node


def cleared(condition: NodeCondition) -> NodeCondition:
    return replace(condition, state=ConditionState.CLEARED)


@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        pytest.param([], NodeState.READY, "", id="nothing"),
        pytest.param([BY_HAND], NodeState.CORDONED, "a new fan", id="a cordon"),
        pytest.param([DRAIN], NodeState.DRAINING, "a new fan", id="a drain"),
        pytest.param([WARNING], NodeState.READY, "", id="a warning"),
        pytest.param([BY_HAND, XID], NodeState.FAULTY, "a new fan; GPU 3 fell off the bus", id="the gravest decides"),
        pytest.param([OUT_OF_CONTACT, BY_HAND], NodeState.UNKNOWN, "silent for 90 s; a new fan", id="out of contact"),
        pytest.param([BY_HAND, XID, cleared(XID)], NodeState.CORDONED, "a new fan", id="clearing one leaves the other"),
        pytest.param([BY_HAND, DRAIN], NodeState.DRAINING, "a new fan", id="raised from cordon to drain"),
        pytest.param(
            [replace(XID, state=ConditionState.UNKNOWN)], NodeState.UNKNOWN, XID.why, id="a fault that can't be seen"
        ),
        pytest.param([replace(WARNING, state=ConditionState.UNKNOWN)], NodeState.READY, "", id="an unseen warning"),
        pytest.param([cleared(XID)], NodeState.READY, "", id="clearing what never was"),
    ],
)
def test_state_of_a_node_follows_from_all_that_is_said_of_it(
    ledger: Ledger, said: list[NodeCondition], state: NodeState, reason: str
) -> None:
    for condition in said:
        ledger.set_condition(condition)
    node = only_node(ledger)
    assert node.state is state
    assert node.is_cordoned is (state is not NodeState.READY)
    assert sorted(node.cordon_reason.split("; ")) == sorted(reason.split("; "))


def test_condition_is_new_once_and_keeps_when_and_who(ledger: Ledger) -> None:
    assert ledger.set_condition(BY_HAND)
    version = ledger.snapshot().version
    assert not ledger.set_condition(BY_HAND)
    assert not ledger.set_condition(cleared(XID))
    (condition,) = ledger.conditions()
    assert condition.since is not None
    assert replace(condition, since=None) == BY_HAND
    assert ledger.set_condition(cleared(BY_HAND))
    assert ledger.conditions() == []
    assert ledger.snapshot().version > version


def test_condition_of_an_unknown_node_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UnknownNode, match="no node 'n9' in gang pool 'gpu'; there are 'localhost' of 'local'"):
        ledger.set_condition(replace(BY_HAND, pool="gpu", node="n9"))


def test_host_that_opens_again_lifts_no_operators_cordon(ledger: Ledger) -> None:
    ledger.set_condition(BY_HAND)
    ledger.close_host(HOST, "the host is going down")
    ledger.open_host(HOST)
    assert (only_node(ledger).state, only_node(ledger).cordon_reason) == (NodeState.CORDONED, "a new fan")
    ledger.set_condition(cleared(BY_HAND))
    assert only_node(ledger).is_usable


def test_nothing_is_admitted_to_a_cordoned_node_until_it_is_lifted(ledger: Ledger) -> None:
    ledger.set_condition(BY_HAND)
    ledger.submit(a_gang(), a_claim())
    tick(ledger)
    record = ledger.state("dag/run/train")
    assert record is not None
    assert (record.state, record.wait_reason) == (GangState.QUEUED, "no nodes")
    assert "a new fan" in record.wait_sentence
    ledger.set_condition(cleared(BY_HAND))
    tick(ledger)
    record = ledger.state("dag/run/train")
    assert record is not None
    assert record.state is GangState.ADMITTED


def test_all_that_is_known_of_a_node_comes_back(ledger: Ledger) -> None:
    node = NodeView(
        "gpu",
        "gpu-1",
        Resources(64.0, 512.0, 8, 900.0, mig=(("1g.10gb", 2),)),
        location=("spine-0", "leaf-3"),
        labels={"rack": "r7"},
        gpu_model="H100",
        gpu_memory_gib=80.0,
        compute=1.6,
        is_spot=True,
        region="eu-1",
        site="lux",
        provider="own",
        fabric="ib",
        link_gbps=400.0,
        price_per_hour=19.5,
        watts=6500.0,
    )
    record = NodeRecord("host-2", node)
    ledger.register_node(record)
    version = ledger.snapshot().version
    ledger.register_node(record)
    assert ledger.snapshot().version == version, "registering the same again changes nothing"
    assert [known for known in ledger.snapshot().nodes if known.pool == "gpu"] == [node]
    ledger.register_node(a_node_record(cpus=4))
    assert [node.capacity.cpus for node in ledger.snapshot().nodes] == [64.0, 4.0]
