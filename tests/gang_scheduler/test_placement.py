"""Where a gang goes: whole, under the smallest subtree, leaving large holes whole, in the order of the fabric."""

from __future__ import annotations

import pytest

from gang_scheduler.actions import WaitReason
from gang_scheduler.gang import WorkerGroup
from gang_scheduler.node import NodeView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView
from tests.builders import a_gang, a_gpu_gang, a_gpu_node, a_node, a_pool, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

TREE = a_pool(levels=("spine", "leaf"))


def in_tree(node: str, spine: str, leaf: str, gpus: int = 8) -> NodeView:
    return a_gpu_node(node, gpus=gpus, location=(spine, leaf))


def holder(node: str, gpus: int) -> GangView:
    return a_running(a_gpu_gang(f"held/{node}/{gpus}", gpus=gpus), node)


def test_no_worker_starts_when_one_of_them_finds_no_room() -> None:
    plan = planned(a_snapshot(holder("n1", 1), a_view(a_gpu_gang("a/r/t", workers=3)), nodes=gpu_nodes(3)))
    assert plan.admitted == []
    assert plan.waits == {"a/r/t": WaitReason.NO_CAPACITY}


def test_no_group_starts_when_another_group_of_the_gang_finds_no_room() -> None:
    groups = (
        WorkerGroup("trainer", 1, Resources(cpus=1, gpus=8)),
        WorkerGroup("loader", 1, Resources(cpus=64)),
    )
    gang = a_gpu_gang("a/r/t", worker_groups=groups)
    assert planned(a_snapshot(a_view(gang), nodes=gpu_nodes(1))).admitted == []
    assert planned(a_snapshot(a_view(gang), nodes=gpu_nodes(2))).admitted == ["a/r/t"]


def test_all_groups_are_placed_when_the_gang_has_several() -> None:
    groups = (
        WorkerGroup("trainer", 2, Resources(cpus=1, gpus=8)),
        WorkerGroup("loader", 3, Resources(cpus=4)),
    )
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t", worker_groups=groups)), nodes=gpu_nodes(2)))
    counts: dict[str, int] = {}
    for placed in plan.grant("a/r/t").placement.workers:
        counts[placed.group] = counts.get(placed.group, 0) + placed.workers
    assert counts == {"trainer": 2, "loader": 3}


@pytest.mark.parametrize(
    ("held", "gpus", "expected"),
    [
        pytest.param({"n1": 2, "n2": 6}, 2, "n2", id="the fullest node that holds it"),
        pytest.param({"n1": 2, "n2": 6}, 4, "n1", id="not the fullest where that is too full"),
        pytest.param({"n1": 2}, 8, "n2", id="an empty node only for who needs one"),
        pytest.param({"n3": 4}, 4, "n3", id="the hole that it fills exactly"),
    ],
)
def test_large_holes_stay_whole_when_a_small_gang_comes(held: dict[str, int], gpus: int, expected: str) -> None:
    gangs = [holder(node, count) for node, count in held.items()]
    plan = planned(a_snapshot(*gangs, a_view(a_gpu_gang("a/r/t", gpus=gpus)), nodes=gpu_nodes(3)))
    assert plan.nodes("a/r/t") == {expected: 1}


@pytest.mark.parametrize(
    ("held", "workers", "expected"),
    [
        pytest.param((), 1, {"n1"}, id="one node"),
        pytest.param((), 2, {"n1", "n2"}, id="one leaf"),
        pytest.param(("n1",), 2, {"n3", "n4"}, id="the leaf that is free, not the node beside the taken one"),
        pytest.param(("n1",), 3, {"n5", "n6", "n7"}, id="the spine with a free leaf of three before crossing leaves"),
        pytest.param((), 4, {"n1", "n2", "n3", "n4"}, id="one spine"),
        pytest.param((), 7, {f"n{number}" for number in range(1, 8)}, id="the whole pool"),
    ],
)
def test_gang_lies_under_the_smallest_subtree_when_there_are_several(
    held: tuple[str, ...], workers: int, expected: set[str]
) -> None:
    nodes = (
        *(in_tree(f"n{number}", "s1", f"l{(number + 1) // 2}") for number in range(1, 5)),
        *(in_tree(f"n{number}", "s2", "l3") for number in range(5, 8)),
    )
    gangs = [holder(node, 8) for node in held]
    plan = planned(a_snapshot(*gangs, a_view(a_gpu_gang("a/r/t", workers=workers)), nodes=nodes, pools=(TREE,)))
    assert set(plan.nodes("a/r/t")) == expected


def test_subtree_with_the_least_left_over_is_taken_when_several_of_a_level_hold_the_gang() -> None:
    nodes = gpu_nodes(6, per_leaf=3)
    gangs = (holder("n4", 8), a_view(a_gpu_gang("a/r/t", workers=2)))
    plan = planned(a_snapshot(*gangs, nodes=nodes, pools=(a_pool(levels=("leaf",)),)))
    assert set(plan.nodes("a/r/t")) == {"n5", "n6"}, "leaf-1 keeps its hole of three nodes"


def test_single_node_is_taken_from_the_fullest_leaf_when_nodes_are_equally_full() -> None:
    nodes = gpu_nodes(6, per_leaf=3)
    gangs = (holder("n4", 8), a_view(a_gpu_gang("a/r/t")))
    plan = planned(a_snapshot(*gangs, nodes=nodes, pools=(a_pool(levels=("leaf",)),)))
    assert set(plan.nodes("a/r/t")) == {"n5"}


def test_ranks_follow_the_location_when_names_do_not() -> None:
    nodes = (
        in_tree("d", "s1", "l1"),
        in_tree("a", "s1", "l2"),
        in_tree("c", "s1", "l1"),
        in_tree("b", "s2", "l3"),
        in_tree("e", "s1", "l2"),
    )
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t", workers=5)), nodes=nodes, pools=(TREE,)))
    assert list(plan.nodes("a/r/t")) == ["c", "d", "a", "e", "b"], "each leaf's nodes are neighbours in the ring"


def test_fewest_nodes_are_used_when_workers_are_small() -> None:
    plan = planned(a_snapshot(a_view(a_gpu_gang("a/r/t", workers=12, gpus=1)), nodes=gpu_nodes(3)))
    assert sorted(plan.nodes("a/r/t").values()) == [4, 8]


@pytest.mark.parametrize(
    ("each", "fits"),
    [
        pytest.param(Resources(cpus=8), True, id="cpus, all"),
        pytest.param(Resources(cpus=8.5), False, id="cpus, half a one too many"),
        pytest.param(Resources(cpus=1, memory_gib=33), False, id="memory"),
        pytest.param(Resources(cpus=1, scratch_gib=101), False, id="scratch"),
        pytest.param(Resources(cpus=1, memory_gib=32, scratch_gib=100), True, id="memory and scratch, all"),
        pytest.param(Resources(gpus=3), False, id="gpus"),
        pytest.param(Resources(gpus=2), True, id="gpus, all"),
    ],
)
def test_every_resource_counts_when_a_worker_is_placed(each: Resources, fits: bool) -> None:
    node = a_node(capacity=Resources(8, 32, 2, 100))
    gang = a_gang("a/r/t", worker_groups=(WorkerGroup("trainer", 1, each),))
    assert bool(planned(a_snapshot(a_view(gang), nodes=(node,))).admitted) is fits
