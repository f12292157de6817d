"""Which nodes and pools a gang takes, and in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.admission import why_never
from gang_scheduler.gang import NodeWishes
from gang_scheduler.node import NodeState
from gang_scheduler.pool import Authority
from tests.builders import NOON, a_gpu_gang, a_gpu_node, a_pool, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

NODES = (
    a_gpu_node("n1", region="eu", labels={"disk": "nvme", "row": "1"}, gpu_model="A100"),
    a_gpu_node("n2", region="us", labels={"disk": "nvme", "row": "2"}, gpu_model="H100"),
    a_gpu_node("n3", region="eu", labels={"disk": "hdd", "row": "2"}, gpu_model="H100"),
)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        pytest.param(NodeWishes(), "n1", id="none: the first"),
        pytest.param(NodeWishes(regions=("us",)), "n2", id="a region"),
        pytest.param(NodeWishes(regions=("us", "asia")), "n2", id="one of several regions"),
        pytest.param(NodeWishes(labels={"disk": "hdd"}), "n3", id="a label"),
        pytest.param(NodeWishes(labels={"disk": "nvme", "row": "2"}), "n2", id="two labels"),
        pytest.param(NodeWishes(labels={"disk": "tape"}), None, id="a label that no node has"),
        pytest.param(NodeWishes(preferred_labels={"row": "2"}), "n2", id="a preferred label"),
        pytest.param(NodeWishes(preferred_labels={"disk": "tape"}), "n1", id="a preferred label that no node has"),
        pytest.param(NodeWishes(excluded=("n1", "n2")), "n3", id="excluded nodes"),
        pytest.param(NodeWishes(gpu_models=("H100",)), "n2", id="a GPU model"),
        pytest.param(NodeWishes(gpu_models=("B200", "A100")), "n1", id="the second model where the first is absent"),
        pytest.param(NodeWishes(gpu_models=("H100", "A100"), regions=("eu",)), "n3", id="a model in a region"),
        pytest.param(NodeWishes(gpu_models=("A100",), regions=("us",)), None, id="a model that the region has not"),
    ],
)
def test_gang_takes_the_node_it_wishes_for_when_all_are_free(wishes: NodeWishes, expected: str | None) -> None:
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t", wishes=wishes)), nodes=NODES))
    assert (plan.nodes("a/r/t") if plan.admitted else None) == (expected and {expected: 1})


def test_preferred_label_gives_way_when_its_nodes_are_taken() -> None:
    gang = a_gpu_gang("a/r/t", wishes=NodeWishes(preferred_labels={"disk": "hdd"}))
    plan = planned(a_snapshot(a_running(a_gpu_gang("held/r/t"), "n3"), a_view(gang), nodes=NODES))
    assert plan.nodes("a/r/t") == {"n1": 1}


def test_next_gpu_model_is_taken_when_the_first_is_not_free() -> None:
    gang = a_gpu_gang("a/r/t", wishes=NodeWishes(gpu_models=("A100", "H100")))
    plan = planned(a_snapshot(a_running(a_gpu_gang("held/r/t"), "n1"), a_view(gang), nodes=NODES))
    assert plan.nodes("a/r/t") == {"n2": 1}


def test_one_gpu_model_holds_the_whole_gang_when_several_would_do() -> None:
    gang = a_gpu_gang("a/r/t", workers=2, wishes=NodeWishes(gpu_models=("A100", "H100")))
    assert set(planned(a_snapshot(a_view(gang), nodes=NODES)).nodes("a/r/t")) == {"n2", "n3"}


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        pytest.param(NodeWishes(apart=("held/r/t",)), {"n2"}, id="apart by node"),
        pytest.param(NodeWishes(apart=("held/r/t",), spread_level="leaf"), {"n3"}, id="apart by leaf"),
        pytest.param(NodeWishes(near=("held/r/t",)), {"n1"}, id="near by node"),
        pytest.param(NodeWishes(near=("held/r/t",), spread_level="leaf"), {"n1"}, id="near by leaf: the fullest node"),
        pytest.param(NodeWishes(near=("gone/r/t",)), None, id="near a gang that runs nowhere"),
        pytest.param(NodeWishes(apart=("gone/r/t",)), {"n1"}, id="apart from a gang that runs nowhere"),
        pytest.param(NodeWishes(apart=("held/r/t",), spread_level="pool"), None, id="apart by pool"),
    ],
)
def test_gang_keeps_its_distance_when_it_names_another(wishes: NodeWishes, expected: set[str] | None) -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=4), "n1")
    gang = a_view(a_gpu_gang("a/r/t", gpus=4, wishes=wishes))
    plan = planned(a_snapshot(held, gang, nodes=gpu_nodes(4, per_leaf=2), pools=(a_pool(levels=("leaf",)),)))
    assert (set(plan.nodes("a/r/t")) if plan.admitted else None) == expected


def test_gangs_of_one_plan_keep_apart_when_the_later_asks_for_it() -> None:
    first = a_view(a_gpu_gang("a/r/t", gpus=2), waited=timedelta(minutes=2))
    second = a_view(a_gpu_gang("b/r/t", gpus=2, wishes=NodeWishes(apart=("a/r/t",))))
    plan = planned(a_snapshot(first, second, nodes=gpu_nodes(2)))
    assert (plan.nodes("a/r/t"), plan.nodes("b/r/t")) == ({"n1": 1}, {"n2": 1})


# --- pools


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param((), "first", id="its own pool"),
        pytest.param(("first",), "second", id="the first fallback"),
        pytest.param(("first", "second"), "third", id="the second fallback"),
        pytest.param(("first", "second", "third"), None, id="none is free"),
    ],
)
def test_first_pool_with_room_is_taken_when_it_names_several(taken: tuple[str, ...], expected: str | None) -> None:
    nodes = [a_gpu_node(f"{pool}-1", pool=pool) for pool in ("third", "second", "first")]
    held = [a_running(a_gpu_gang(f"held/{pool}/t", gang_pool=pool), f"{pool}-1") for pool in taken]
    gang = a_gpu_gang("a/r/t", gang_pool="first", fallback_pools=("second", "third"))
    plan = planned(a_snapshot(*held, a_view(gang), nodes=nodes))
    assert (plan.pool("a/r/t") if plan.admitted else None) == expected


def test_fallback_is_used_when_the_pool_has_no_nodes() -> None:
    gang = a_gpu_gang("a/r/t", gang_pool="gone", fallback_pools=("gpu",))
    assert planned(a_snapshot(a_view(gang), nodes=gpu_nodes(1))).pool("a/r/t") == "gpu"


def test_gang_waits_for_the_pool_that_could_hold_it_when_another_never_will() -> None:
    """It comes late in both, and the small one is tried first, since there it would be sooner over."""
    nodes = [a_gpu_node("small-1", pool="small", gpus=1, compute=2.0), a_gpu_node("large-1", pool="large")]
    held = a_running(a_gpu_gang("held/r/t", gang_pool="large"), "large-1")
    gang = a_gpu_gang(
        "a/r/t", gang_pool="small", fallback_pools=("large",), minutes=600, deadline=NOON + timedelta(minutes=1)
    )
    plan = planned(a_snapshot(held, a_view(gang), nodes=nodes))
    assert "gang pool 'large' has 56 CPUs, 512 GiB free" in plan.sentence("a/r/t")


def test_gang_is_passed_on_whole_when_another_cluster_admits_to_the_pool() -> None:
    pool = a_pool(authority=Authority.KUEUE)
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t", workers=99)), nodes=gpu_nodes(1), pools=(pool,)))
    assert plan.nodes("a/r/t") == {"n1": 99}


# --- states of nodes


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"is_cordoned": True}, id="cordoned by hand"),
        *(pytest.param({"state": state}, id=state) for state in NodeState if state is not NodeState.READY),
    ],
)
def test_node_takes_no_new_worker_when_it_is_not_ready(fields: dict[str, Any]) -> None:
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t")), nodes=gpu_nodes(1, **fields)))
    assert plan.waits == {"a/r/t": WaitReason.NO_NODES}
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t")), nodes=(*gpu_nodes(1, **fields), a_gpu_node("n2"))))
    assert plan.nodes("a/r/t") == {"n2": 1}


@pytest.mark.parametrize(
    ("state", "is_left"),
    [
        pytest.param(NodeState.READY, False, id="ready"),
        pytest.param(NodeState.CORDONED, False, id="cordoned"),
        pytest.param(NodeState.UNKNOWN, False, id="unknown is not dead"),
        pytest.param(NodeState.DRAINING, True, id="draining"),
        pytest.param(NodeState.FAULTY, True, id="faulty"),
    ],
)
def test_running_gang_is_asked_to_go_elsewhere_when_its_node_is_to_be_left(state: NodeState, is_left: bool) -> None:
    gang = a_running(a_gpu_gang("a/r/t", workers=2), "n1", "n2")
    nodes = (a_gpu_node("n1"), a_gpu_node("n2", state=state, cordon_reason="Xid 79"))
    plan = planned(a_snapshot(gang, nodes=nodes))
    assert plan.stops == ({"a/r/t": StopReason.NODE} if is_left else {})
    if is_left:
        assert f"node 'n2' is {state} (Xid 79)" in plan.sentence("a/r/t")


def test_capacity_of_a_node_stays_held_when_it_is_cordoned_and_ready_again() -> None:
    gang = a_running(a_gpu_gang("a/r/t"), "n1")
    for fields in ({"is_cordoned": True}, {"state": NodeState.UNKNOWN}, {}):
        snapshot = a_snapshot(gang, a_view(a_gpu_gang("b/r/t")), nodes=gpu_nodes(1, **fields))
        assert planned(snapshot).admitted == []


def test_refusal_names_the_wishes_when_no_node_could_ever_meet_them() -> None:
    gang = a_gpu_gang("a/r/t", wishes=NodeWishes(regions=("mars",), gpu_models=("H100",)))
    never = why_never(gang, NODES)
    assert never is not None
    assert "GPU models H100; regions mars" in never
    assert why_never(a_gpu_gang("a/r/t", wishes=NodeWishes(near=("gone/r/t",))), NODES) is None


def test_gang_is_not_refused_for_good_when_its_only_node_is_out_of_use() -> None:
    assert why_never(a_gpu_gang("a/r/t"), gpu_nodes(1, state=NodeState.FAULTY)) is None
