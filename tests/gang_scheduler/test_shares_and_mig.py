"""Shares of GPUs, MIG instances, and spare CPUs of GPU nodes."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from gang_scheduler.actions import StopReason
from gang_scheduler.gang import GangRequest, PlacedWorkers, Placement, WorkerGroup
from gang_scheduler.gang_state import GangState
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView
from tests.builders import a_gpu_gang, a_gpu_node, a_pool, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import carried_out, planned

MINUTE = timedelta(minutes=1)


def asking(name: str, each: Resources, workers: int = 1, *, harvests: bool = False, **fields: object) -> GangRequest:
    groups = (WorkerGroup("trainer", workers, each, harvests_cpus=harvests),)
    return a_gpu_gang(f"{name}/r/t", worker_groups=groups, **fields)  # type: ignore[arg-type]


def sharing(name: str, share: float, *devices: int, node: str = "n1") -> GangView:
    """Holds its share of each of the devices."""
    request = asking(name, Resources(cpus=1, gpu_share=share), len(devices))
    placement = Placement("gpu", (PlacedWorkers(node, "trainer", len(devices), devices),))
    return a_view(request, GangState.RUNNING, placement=placement)


@pytest.mark.parametrize(
    ("share", "workers", "is_admitted"),
    [
        pytest.param(0.5, 4, True, id="two on each of two devices"),
        pytest.param(0.5, 5, False, id="no fifth"),
        pytest.param(0.6, 2, True, id="one on each device"),
        pytest.param(0.6, 3, False, id="no third, though 0.8 of a GPU is free in all"),
        pytest.param(0.3, 6, True, id="three on each"),
        pytest.param(0.1, 20, True, id="ten on each: sums of tenths are whole"),
        pytest.param(1.0, 2, True, id="all of a device"),
    ],
)
def test_shares_fit_when_each_is_of_one_device(share: float, workers: int, is_admitted: bool) -> None:
    gang = asking("a", Resources(cpus=1, gpu_share=share), workers)
    plan = planned(a_snapshot(a_view(gang), nodes=gpu_nodes(1, gpus=2)))
    assert bool(plan.admitted) is is_admitted
    if is_admitted:
        load = Counter(device for part in plan.grant("a/r/t").placement.workers for device in part.devices)
        assert max(load.values()) * share <= 1 + 1e-9
        assert sum(load.values()) == workers


@pytest.mark.parametrize(
    ("held", "asked", "is_admitted"),
    [
        pytest.param([sharing("h", 0.5, 0)], Resources(gpus=1), True, id="a whole one beside a shared one"),
        pytest.param([sharing("h", 0.5, 0)], Resources(gpus=2), False, id="a shared one is not whole"),
        pytest.param([sharing("h", 0.5, 0, 1)], Resources(gpus=1), False, id="none is whole"),
        pytest.param([sharing("h", 0.5, 0, 1)], Resources(gpu_share=0.5), True, id="the rest of a shared one"),
        pytest.param([sharing("h", 0.7, 0, 1)], Resources(gpu_share=0.5), False, id="rests of two are not one"),
    ],
)
def test_shared_devices_are_not_whole_when_somebody_asks(
    held: list[GangView], asked: Resources, is_admitted: bool
) -> None:
    plan = planned(a_snapshot(*held, a_view(asking("a", asked)), nodes=gpu_nodes(1, gpus=2)))
    assert bool(plan.admitted) is is_admitted


def test_share_goes_to_the_device_in_use_when_it_has_room() -> None:
    plan = planned(
        a_snapshot(sharing("h", 0.5, 1), a_view(asking("a", Resources(gpu_share=0.5))), nodes=gpu_nodes(1, gpus=2))
    )
    assert plan.grant("a/r/t").placement.workers[0].devices == (1,)


def test_shares_count_against_the_quota_when_they_are_parts_of_a_gpu() -> None:
    queues = (a_queue("default", a_quota(1.0)),)
    gangs = [a_view(asking(f"g{number}", Resources(gpu_share=0.4))) for number in range(3)]
    assert len(planned(a_snapshot(*gangs, nodes=gpu_nodes(1), queues=queues)).admitted) == 2


# --- MIG

MIG_NODE = a_gpu_node(capacity=Resources(64, 512, 2, mig=(("1g.10gb", 3), ("3g.40gb", 1))))


@pytest.mark.parametrize(
    ("profile", "workers", "is_admitted"),
    [
        pytest.param("1g.10gb", 3, True, id="all of a profile"),
        pytest.param("1g.10gb", 4, False, id="one too many"),
        pytest.param("3g.40gb", 1, True, id="another profile"),
        pytest.param("7g.80gb", 1, False, id="a profile that is not there"),
    ],
)
def test_mig_instances_are_given_by_profile_when_asked_for(profile: str, workers: int, is_admitted: bool) -> None:
    gang = asking("a", Resources(cpus=1, mig=((profile, 1),)), workers)
    assert bool(planned(a_snapshot(a_view(gang), nodes=(MIG_NODE,))).admitted) is is_admitted


def test_mig_instances_are_given_once_when_gangs_hold_them() -> None:
    held = a_running(asking("h", Resources(cpus=1, mig=(("1g.10gb", 1),)), 2), "n1", "n1")
    one = asking("a", Resources(cpus=1, mig=(("1g.10gb", 1),)))
    two = asking("b", Resources(cpus=1, mig=(("1g.10gb", 1),)))
    assert len(planned(a_snapshot(held, a_view(one), a_view(two), nodes=(MIG_NODE,))).admitted) == 1


# --- spare CPUs of GPU nodes


@pytest.mark.parametrize(
    ("reserve", "held_gpus", "cpus", "is_admitted"),
    [
        pytest.param(0, 0, 64, True, id="no reserve"),
        pytest.param(4, 0, 32, True, id="beside the reserve of 8 GPUs"),
        pytest.param(4, 0, 33, False, id="into the reserve"),
        pytest.param(4, 8, 56, True, id="GPUs in use need no reserve"),
        pytest.param(4, 4, 44, True, id="half of the GPUs in use"),
        pytest.param(4, 4, 45, False, id="half of the GPUs in use, into the rest of the reserve"),
    ],
)
def test_cpus_of_a_gpu_node_are_spared_when_its_gpus_are_idle(
    reserve: float, held_gpus: int, cpus: float, is_admitted: bool
) -> None:
    held = [a_running(a_gpu_gang("held/r/t", gpus=held_gpus), "n1")] if held_gpus else []
    gang = a_view(asking("a", Resources(cpus=cpus), harvests=True))
    plan = planned(a_snapshot(*held, gang, nodes=gpu_nodes(1), pools=(a_pool(cpu_reserve_per_gpu=reserve),)))
    assert bool(plan.admitted) is is_admitted


def test_gpu_gang_uses_the_reserve_when_it_asks_gpus() -> None:
    harvester = a_running(asking("h", Resources(cpus=32), harvests=True), "n1")
    gang = a_view(asking("a", Resources(cpus=32, gpus=8)))
    plan = planned(a_snapshot(harvester, gang, nodes=gpu_nodes(1), pools=(a_pool(cpu_reserve_per_gpu=4),)))
    assert plan.admitted == ["a/r/t"]


def test_harvesters_stop_first_when_a_gpu_gang_lacks_cpus() -> None:
    """Even of its own priority, and though a gang of lower priority would make room as well."""
    harvester = a_running(asking("h", Resources(cpus=60), harvests=True), "n1", ran=999 * MINUTE)
    lower = a_running(a_gpu_gang("low/r/t", gang_priority=-1), "n2")
    plan = planned(a_snapshot(harvester, lower, a_view(a_gpu_gang("a/r/t")), nodes=gpu_nodes(2)))
    assert plan.stops == {"h/r/t": StopReason.PREEMPTED}


def test_harvester_stays_when_it_has_the_higher_priority() -> None:
    harvester = a_running(asking("h", Resources(cpus=60), harvests=True, gang_priority=1), "n1")
    assert planned(a_snapshot(harvester, a_view(a_gpu_gang("a/r/t")), nodes=gpu_nodes(1))).stops == {}


def test_harvester_does_not_come_back_at_once_when_it_made_room() -> None:
    harvester = a_running(asking("h", Resources(cpus=60), harvests=True), "n1")
    snapshot = a_snapshot(harvester, a_view(a_gpu_gang("a/r/t")), nodes=gpu_nodes(1))
    snapshot = carried_out(snapshot, planned(snapshot).actions, MINUTE)
    assert planned(snapshot).admitted == ["a/r/t"]


def test_cpu_gang_stays_when_it_does_not_harvest() -> None:
    cpu_gang = a_running(asking("h", Resources(cpus=60)), "n1")
    assert planned(a_snapshot(cpu_gang, a_view(a_gpu_gang("a/r/t")), nodes=gpu_nodes(1))).stops == {}


def test_nobody_stops_when_a_cpu_gang_could_only_go_into_the_reserve() -> None:
    running = a_running(asking("h", Resources(cpus=32), gang_priority=-1), "n1")
    gang = a_view(asking("a", Resources(cpus=40)))
    plan = planned(a_snapshot(running, gang, nodes=gpu_nodes(1), pools=(a_pool(cpu_reserve_per_gpu=4),)))
    assert plan.stops == {}
