"""Topology levels: a required one is kept or waited for, a preferred one is kept where it can be."""

from __future__ import annotations

import pytest

from gang_scheduler.actions import WaitReason
from gang_scheduler.admission import why_never
from gang_scheduler.gang import Topology
from tests.builders import a_gpu_gang, a_pool, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

POOL = a_pool(levels=("leaf",))
NODES = gpu_nodes(4, per_leaf=2)
SCATTERED = [a_running(a_gpu_gang(f"held/{node}/t"), node) for node in ("n1", "n3")]


@pytest.mark.parametrize(
    ("level", "is_required", "is_admitted"),
    [
        pytest.param("leaf", True, False, id="required leaf"),
        pytest.param("leaf", False, True, id="preferred leaf"),
        pytest.param("node", True, False, id="required node"),
        pytest.param("node", False, True, id="preferred node"),
        pytest.param("pool", True, True, id="required pool"),
    ],
)
def test_gang_of_two_nodes_starts_when_its_level_can_be_had(level: str, is_required: bool, is_admitted: bool) -> None:
    gang = a_gpu_gang("a/r/t", workers=2, topology=Topology(level, is_required))
    plan = planned(a_snapshot(*SCATTERED, a_view(gang), nodes=NODES, pools=(POOL,)))
    if is_admitted:
        assert set(plan.nodes("a/r/t")) == {"n2", "n4"}
    else:
        assert plan.waits == {"a/r/t": WaitReason.NO_CAPACITY}


def test_required_leaf_is_used_when_one_is_free() -> None:
    gang = a_gpu_gang("a/r/t", workers=2, topology=Topology("leaf", is_required=True))
    plan = planned(a_snapshot(SCATTERED[0], a_view(gang), nodes=NODES, pools=(POOL,)))
    assert set(plan.nodes("a/r/t")) == {"n3", "n4"}


def test_required_node_holds_all_workers_when_one_is_free() -> None:
    gang = a_gpu_gang("a/r/t", workers=8, gpus=1, topology=Topology("node", is_required=True))
    others = [a_running(a_gpu_gang(f"held/{node}/t", gpus=1), node) for node in ("n1", "n2", "n3")]
    plan = planned(a_snapshot(*others, a_view(gang), nodes=NODES, pools=(POOL,)))
    assert plan.nodes("a/r/t") == {"n4": 8}


def test_gang_is_refused_for_good_when_no_domain_of_its_level_could_ever_hold_it() -> None:
    gang = a_gpu_gang("a/r/t", workers=3, topology=Topology("leaf", is_required=True))
    assert "all under one 'leaf'" in (why_never(gang, NODES, [POOL]) or "")
    assert why_never(a_gpu_gang("a/r/t", workers=3, topology=Topology("leaf")), NODES, [POOL]) is None


def test_refusal_names_the_levels_when_the_level_is_unknown() -> None:
    gang = a_gpu_gang("a/r/t", topology=Topology("rack"))
    assert "asks topology level 'rack'; gang pool 'gpu' has 'node', 'leaf', 'pool'" in (
        why_never(gang, NODES, [POOL]) or ""
    )
