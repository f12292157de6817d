"""Elastic gangs: start small, grow when nobody waits, make room by going on with fewer workers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.gang import WorkerGroup
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, Snapshot
from tests.builders import a_gpu_gang, a_pool, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import Planned, carried_out, planned

MINUTE = timedelta(minutes=1)


def elastic(name: str = "e", workers: int = 8, least: int = 2, gpus: int = 1, **fields: object) -> GangView:
    return a_view(a_gpu_gang(f"{name}/r/t", workers=workers, gpus=gpus, min_workers=least, **fields))  # type: ignore[arg-type]


def placed(plan: Planned, gang_id: str = "e/r/t") -> int:
    return sum(plan.nodes(gang_id).values())


@pytest.mark.parametrize(
    ("held", "others", "expected"),
    [
        pytest.param(0, 0, 8, id="all when it is alone and there is room"),
        pytest.param(3, 0, 5, id="what is free when it is alone"),
        pytest.param(6, 0, 2, id="the fewest"),
        pytest.param(7, 0, 0, id="not fewer"),
        pytest.param(0, 8, 2, id="the fewest when another waits as well"),
    ],
)
def test_gang_starts_with_what_there_is_when_it_may_be_smaller(held: int, others: int, expected: int) -> None:
    gangs = [a_running(a_gpu_gang("held/r/t", gpus=held), "n1")] if held else []
    gangs += [a_view(a_gpu_gang("other/r/t", gpus=others), waited=timedelta(seconds=1))] if others else []
    plan = planned(a_snapshot(*gangs, elastic(), nodes=gpu_nodes(1)))
    assert (placed(plan) if plan.admitted else 0) == expected


def test_sentence_says_how_many_of_its_workers_when_it_starts_smaller() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=3), "n1")
    plan = planned(a_snapshot(held, elastic(), nodes=gpu_nodes(1)))
    assert "admitted with fewer workers, as it allows: 5 of 8 workers" in plan.grant("e/r/t").sentence


def test_several_let_in_at_once_share_what_is_left_when_nobody_else_waits() -> None:
    plan = planned(a_snapshot(elastic("a"), elastic("b"), nodes=gpu_nodes(1)))
    assert placed(plan, "a/r/t") + placed(plan, "b/r/t") == 8
    assert min(placed(plan, "a/r/t"), placed(plan, "b/r/t")) == 2


def test_groups_grow_together_when_there_are_several() -> None:
    groups = (
        WorkerGroup("trainer", 8, Resources(cpus=1, gpus=1), 2),
        WorkerGroup("loader", 4, Resources(cpus=8), 1),
    )
    plan = planned(a_snapshot(a_view(a_gpu_gang("e/r/t", worker_groups=groups)), nodes=gpu_nodes(1, cpus=28)))
    counts: dict[str, int] = {}
    for part in plan.grant("e/r/t").placement.workers:
        counts[part.group] = counts.get(part.group, 0) + part.workers
    assert 2 <= counts["trainer"] < 8
    assert 1 <= counts["loader"] < 4
    assert counts["trainer"] + 8 * counts["loader"] <= 28


# --- limits hold for what it gets, not only for what it must have


def test_gang_gets_no_more_than_its_quota_when_the_pool_is_idle() -> None:
    plan = planned(a_snapshot(elastic(), nodes=gpu_nodes(1), queues=(a_queue("default", a_quota(3)),)))
    assert placed(plan) == 3


def test_gang_gets_no_more_power_than_the_cap_when_the_pool_is_idle() -> None:
    pool = a_pool(power_cap_w=2000)
    plan = planned(a_snapshot(elastic(workers=4, least=1, gpus=8), nodes=gpu_nodes(4, watts=1000.0), pools=(pool,)))
    assert placed(plan) == 2


# --- growing


def small(at: int = 2, ran: float = 10, **fields: object) -> GangView:
    request = a_gpu_gang("e/r/t", workers=8, gpus=1, min_workers=2, **fields)  # type: ignore[arg-type]
    return a_running(request, *("n1",) * at, ran=ran * MINUTE)


@pytest.mark.parametrize(
    ("gangs", "queues", "stops"),
    [
        pytest.param((small(),), (), True, id="the pool is idle"),
        pytest.param((small(8),), (), False, id="it has all that it asks"),
        pytest.param((small(ran=4),), (), False, id="it has only just started"),
        pytest.param((small(), a_running(a_gpu_gang("held/r/t", gpus=6), "n1")), (), False, id="nothing is free"),
        pytest.param((small(), a_view(a_gpu_gang("big/r/t", workers=9))), (), False, id="another waits"),
        pytest.param((small(),), (a_queue("default", a_quota(2)),), False, id="its quota is spent"),
        pytest.param((small(),), (a_queue("default", a_quota(4)),), True, id="its quota leaves room"),
    ],
)
def test_running_gang_is_restarted_larger_when_nobody_waits_and_there_is_room(
    gangs: tuple[GangView, ...], queues: tuple[object, ...], stops: bool
) -> None:
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(1), queues=queues))
    assert plan.stops == ({"e/r/t": StopReason.GROWS} if stops else {})


def test_gang_does_not_restart_for_nothing_when_power_is_short() -> None:
    request = a_gpu_gang("e/r/t", workers=4, min_workers=1)
    snapshot = a_snapshot(a_running(request, "n1"), nodes=gpu_nodes(2, watts=1000.0), pools=(a_pool(power_cap_w=1500),))
    assert planned(snapshot).stops == {}


def test_grown_gang_rests_when_the_plan_was_carried_out() -> None:
    snapshot = a_snapshot(small(), nodes=gpu_nodes(1))
    assert planned(snapshot).stops == {"e/r/t": StopReason.GROWS}
    snapshot = carried_out(snapshot, planned(snapshot).actions, MINUTE)
    plan = planned(snapshot)
    assert placed(plan) == 8
    plan = planned(carried_out(snapshot, plan.actions, 10 * MINUTE))
    assert not plan.actions


# --- shrinking


@pytest.mark.parametrize(
    ("workers", "asked", "reason"),
    [
        pytest.param(8, 4, StopReason.SHRINKS, id="goes on with fewer"),
        pytest.param(8, 6, StopReason.SHRINKS, id="goes on with the fewest"),
        pytest.param(8, 7, StopReason.PREEMPTED, id="no room for the fewest"),
    ],
)
def test_elastic_gang_shrinks_when_it_makes_room(workers: int, asked: int, reason: StopReason) -> None:
    waiting = a_view(a_gpu_gang("high/r/t", gpus=asked, gang_priority=1))
    snapshot = a_snapshot(small(workers), waiting, nodes=gpu_nodes(1))
    plan = planned(snapshot)
    assert plan.stops == {"e/r/t": reason}
    after = planned(carried_out(snapshot, plan.actions, MINUTE))
    assert "high/r/t" in after.admitted
    assert ("e/r/t" in after.admitted) is (reason is StopReason.SHRINKS)


def test_elastic_gang_may_preempt_when_only_its_fewest_workers_are_within_the_quota() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=8), "n1")
    queues = (a_queue("q", a_quota(4)),)
    plan = planned(a_snapshot(held, elastic(gang_queue="q", gang_priority=1), nodes=gpu_nodes(1), queues=queues))
    assert plan.stops == {"held/r/t": StopReason.PREEMPTED}


def test_no_more_is_reclaimed_of_an_elastic_borrower_than_it_holds() -> None:
    """Each holds 3 of the 8 that it asks: of the 6 borrowed, 4 are wanted back, so both have to give."""
    held = [
        a_running(a_gpu_gang(f"e{number}/r/t", workers=8, gpus=1, min_workers=3, gang_queue="a"), *("n1",) * 3)
        for number in range(2)
    ]
    other = a_running(a_gpu_gang("kept/r/t", gpus=2, gang_queue="b"), "n1")
    queues = (a_queue("a", a_quota(0), cohort="all"), a_queue("b", a_quota(8), cohort="all"))
    waiting = a_view(a_gpu_gang("b/r/t", gpus=6, gang_queue="b"))
    plan = planned(a_snapshot(*held, other, waiting, nodes=gpu_nodes(1), queues=queues))
    assert set(plan.stops) == {"e0/r/t", "e1/r/t"}


def snapshot_settles(snapshot: Snapshot, rounds: int = 6) -> bool:
    for _ in range(rounds):
        plan = planned(snapshot)
        if not plan.admitted and not plan.stops:
            return True
        snapshot = carried_out(snapshot, plan.actions, 10 * MINUTE)
    return False


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(a_snapshot(small(), nodes=gpu_nodes(1), queues=(a_queue("default", a_quota(4)),)), id="quota"),
        pytest.param(a_snapshot(small(), elastic("f"), elastic("g"), nodes=gpu_nodes(1)), id="three elastic gangs"),
        pytest.param(
            a_snapshot(small(8), a_view(a_gpu_gang("high/r/t", gpus=4, gang_priority=1)), nodes=gpu_nodes(1)),
            id="shrinks",
        ),
    ],
)
def test_elastic_gangs_come_to_rest_when_plans_are_carried_out(snapshot: Snapshot) -> None:
    assert snapshot_settles(snapshot)


def test_elastic_gang_waits_as_any_other_when_its_fewest_do_not_fit() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=7), "n1")
    assert planned(a_snapshot(held, elastic(), nodes=gpu_nodes(1))).waits == {"e/r/t": WaitReason.NO_CAPACITY}
