"""Who is asked to stop for whom: whole gangs, the cheapest, no more than needed, and never to and fro."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.gang import Topology
from gang_scheduler.gang_state import GangState
from gang_scheduler.policy import Order
from gang_scheduler.snapshot import GangView, Snapshot
from tests.builders import (
    NOON,
    a_gpu_gang,
    a_policy,
    a_pool,
    a_queue,
    a_quota,
    a_running,
    a_snapshot,
    a_view,
    gpu_nodes,
)
from tests.gang_scheduler.planned import carried_out, planned

MINUTE = timedelta(minutes=1)


def low(
    name: str, node: str, *more: str, gpus: int = 8, ran: float = 10, saved: float | None = None, **fields: object
) -> GangView:
    """A running gang of priority 0; its last checkpoint was committed `saved` minutes ago."""
    at = (node, *more)
    request = a_gpu_gang(f"{name}/r/t", workers=len(at), gpus=gpus, **fields)  # type: ignore[arg-type]
    saved_at = None if saved is None else NOON - saved * MINUTE
    return a_running(request, *at, ran=ran * MINUTE, saved_at=saved_at)


def high(workers: int = 1, gpus: int = 8, **fields: object) -> GangView:
    return a_view(a_gpu_gang("high/r/t", workers=workers, gpus=gpus, gang_priority=5, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("running", "waiting", "expected"),
    [
        pytest.param([low("a", "n1", ran=60), low("b", "n2", ran=20)], high(), {"b"}, id="who lost least"),
        pytest.param(
            [low("a", "n1", ran=60, saved=1), low("b", "n2", ran=20)], high(), {"a"}, id="since the last checkpoint"
        ),
        pytest.param([low("a", "n1", ran=60, saved=30), low("b", "n2", ran=20)], high(), {"b"}, id="an old checkpoint"),
        pytest.param(
            [low("a", "n1", gang_priority=1), low("b", "n2", ran=999)], high(), {"b"}, id="lowest priority first"
        ),
        pytest.param([low("a", "n1", gang_priority=5), low("b", "n2", gang_priority=5)], high(), set(), id="equals"),
        pytest.param([low("a", "n1", gang_priority=6), low("b", "n2", gang_priority=9)], high(), set(), id="higher"),
        pytest.param(
            [low("a", "n1", ran=5, is_preemptible=False), low("b", "n2", ran=60)],
            high(),
            {"b"},
            id="not to be preempted",
        ),
        pytest.param(
            [low("a", "n1", is_preemptible=False), low("b", "n2", is_preemptible=False)],
            high(),
            set(),
            id="none to be preempted",
        ),
        pytest.param([low("a", "n1", "n2")], high(), {"a"}, id="a gang stops whole"),
        pytest.param(
            [low("a", "n1", ran=5), low("b", "n2", ran=6)], high(workers=2), {"a", "b"}, id="as many as are needed"
        ),
        pytest.param(
            [low("a", "n1", gpus=4, ran=5), low("b", "n1", gpus=4, ran=50), low("c", "n2", ran=50)],
            high(gpus=4),
            {"a"},
            id="only one of a node's two",
        ),
        pytest.param(
            [low("a", "n1", gpus=2, ran=5), low("b", "n1", gpus=6, ran=9), low("c", "n2", ran=50)],
            high(gpus=6),
            {"b"},
            id="a cheap one that is not needed is spared",
        ),
        pytest.param([low("a", "n1"), low("b", "n2")], high(workers=3), set(), id="all together would not do"),
        pytest.param([low("a", "n1", gpus=7), low("b", "n2")], high(gpus=1), set(), id="there is room without"),
    ],
)
def test_cheapest_gangs_stop_when_a_higher_priority_waits(
    running: list[GangView], waiting: GangView, expected: set[str]
) -> None:
    plan = planned(a_snapshot(*running, waiting, nodes=gpu_nodes(2)))
    assert set(plan.stops) == {f"{name}/r/t" for name in expected}
    if expected:
        assert set(plan.stops.values()) == {StopReason.PREEMPTED}
        assert plan.waits == {"high/r/t": WaitReason.PREEMPTING}


def test_nobody_stops_when_the_policy_does_not_preempt() -> None:
    snapshot = a_snapshot(low("a", "n1"), high(), nodes=gpu_nodes(1), policy=a_policy(preempts_by_priority=False))
    assert planned(snapshot).stops == {}


@pytest.mark.parametrize("state", [GangState.ADMITTED, GangState.UNKNOWN])
def test_gang_is_not_asked_to_stop_when_it_could_not_answer(state: GangState) -> None:
    gang = a_running(a_gpu_gang("a/r/t"), "n1", state=state)
    assert planned(a_snapshot(gang, high(), nodes=gpu_nodes(1))).stops == {}


def test_victim_frees_a_whole_leaf_when_the_gang_needs_one() -> None:
    running = [low("a", "n1", ran=5), low("b", "n3", ran=6), low("c", "n2", ran=7), low("d", "n4", ran=50)]
    waiting = high(workers=2, topology=Topology("leaf", is_required=True))
    plan = planned(a_snapshot(*running, waiting, nodes=gpu_nodes(4, per_leaf=2), pools=(a_pool(levels=("leaf",)),)))
    assert set(plan.stops) == {"a/r/t", "c/r/t"}


def test_storage_is_freed_when_it_is_what_the_gang_lacks() -> None:
    running = [low("a", "n1", storage_gib=60), low("b", "n2", ran=5)]
    snapshot = a_snapshot(*running, high(storage_gib=60), nodes=gpu_nodes(3), pools=(a_pool(storage_gib=100),))
    assert set(planned(snapshot).stops) == {"a/r/t"}


def test_storage_is_freed_when_its_holder_stands_elsewhere_than_the_gang_goes() -> None:
    running = [low("a", "n1", storage_gib=60), low("b", "n2", gpus=4, is_preemptible=False)]
    snapshot = a_snapshot(*running, high(gpus=4, storage_gib=60), nodes=gpu_nodes(2), pools=(a_pool(storage_gib=100),))
    plan = planned(snapshot)
    assert set(plan.stops) == {"a/r/t"}
    assert "high/r/t" in planned(carried_out(snapshot, plan.actions, MINUTE)).admitted


def test_power_is_freed_when_it_is_what_the_gang_lacks() -> None:
    snapshot = a_snapshot(low("a", "n1"), high(), nodes=gpu_nodes(2, watts=1000.0), pools=(a_pool(power_cap_w=1500),))
    plan = planned(snapshot)
    assert plan.admitted == []
    assert plan.waits == {"high/r/t": WaitReason.POWER}


def test_quota_is_freed_when_it_is_what_the_gang_lacks() -> None:
    queues = (a_queue("default", a_quota(8)),)
    snapshot = a_snapshot(
        low("a", "n1", gpus=4), low("b", "n1", gpus=4, ran=20), high(gpus=4), nodes=gpu_nodes(2), queues=queues
    )
    assert set(planned(snapshot).stops) == {"a/r/t"}


# --- those that stop already


def stopping(name: str, *at: str, gpus: int = 8) -> GangView:
    request = a_gpu_gang(f"{name}/r/t", workers=len(at), gpus=gpus)
    return a_running(request, *at, state=GangState.STOPPING, stop_deadline=NOON + MINUTE)


def test_capacity_of_a_stopping_gang_is_awaited_when_it_will_do() -> None:
    plan = planned(a_snapshot(stopping("a", "n1"), low("b", "n2"), high(), nodes=gpu_nodes(2)))
    assert plan.stops == {}
    assert plan.waits == {"high/r/t": WaitReason.PREEMPTING}


def test_capacity_of_a_stopping_gang_counts_when_more_is_needed() -> None:
    running = [stopping("a", "n1"), low("b", "n2"), low("c", "n3")]
    plan = planned(a_snapshot(*running, high(workers=2), nodes=gpu_nodes(3)))
    assert len(plan.stops) == 1


def test_capacity_is_kept_for_whom_others_stop_when_somebody_else_would_fit_now() -> None:
    """n2 is free, n1 stops; the first gets both, and a later one of low priority must not slip in."""
    later = a_view(a_gpu_gang("later/r/t", minutes=1), waited=99 * MINUTE)
    plan = planned(a_snapshot(stopping("a", "n1"), high(workers=2), later, nodes=gpu_nodes(2)))
    assert plan.admitted == []
    assert plan.waits["high/r/t"] is WaitReason.PREEMPTING


def test_two_wait_for_the_stops_of_two_when_both_have_the_priority() -> None:
    running = [low("a", "n1"), low("b", "n2"), low("c", "n3")]
    other = a_view(a_gpu_gang("other/r/t", gang_priority=5))
    plan = planned(a_snapshot(*running, high(), other, nodes=gpu_nodes(3)))
    assert len(plan.stops) == 2
    assert set(plan.waits.values()) == {WaitReason.PREEMPTING}


def test_nobody_is_asked_again_when_the_stop_was_planned_before() -> None:
    snapshot = a_snapshot(low("a", "n1"), low("b", "n2"), high(), nodes=gpu_nodes(2))
    first = planned(snapshot)
    assert len(first.stops) == 1
    asked = tuple(
        a_running(view.request, view.placement.nodes[0], state=GangState.STOPPING, stop_deadline=NOON + MINUTE)
        if view.placement is not None and view.request.gang_id in first.stops
        else view
        for view in snapshot.gangs
    )
    assert planned(a_snapshot(*asked, nodes=snapshot.nodes)).stops == {}


# --- no thrashing


def settles(snapshot: Snapshot, rounds: int = 8, every: timedelta = 6 * MINUTE) -> int:
    """Carry plans out until one changes nothing; how many were needed."""
    for number in range(rounds):
        plan = planned(snapshot)
        if not plan.admitted and not plan.stops:
            return number
        snapshot = carried_out(snapshot, plan.actions, every)
    return rounds


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(a_snapshot(low("a", "n1"), low("b", "n2"), high(), nodes=gpu_nodes(2)), id="by priority"),
        pytest.param(
            a_snapshot(
                low("a", "n1", gang_queue="a"),
                a_view(a_gpu_gang("b/r/t", gpus=4, gang_queue="b")),
                nodes=gpu_nodes(1),
                queues=(a_queue("a", a_quota(4), cohort="all"), a_queue("b", a_quota(4), cohort="all")),
            ),
            id="by quota",
        ),
        pytest.param(
            a_snapshot(
                low("a", "n1", gang_queue="a"),
                a_view(a_gpu_gang("b/r/t", gpus=4, gang_queue="b")),
                nodes=gpu_nodes(1),
                queues=(a_queue("a", a_quota(4), cohort="all"), a_queue("b", a_quota(4), cohort="all")),
                policy=a_policy(fair_share=False),
            ),
            id="by quota, without fair shares",
        ),
        pytest.param(
            a_snapshot(
                low("a", "n1", gang_queue="harvest", gang_priority=9),
                a_view(a_gpu_gang("b/r/t", gang_queue="owner")),
                nodes=gpu_nodes(1),
                queues=(
                    a_queue("harvest", a_quota(0), cohort="all", harvests_only=True),
                    a_queue("owner", a_quota(8), cohort="all"),
                ),
            ),
            id="harvesters of a higher priority",
        ),
        pytest.param(
            a_snapshot(
                low("a", "n1", gang_queue="a", gang_priority=1),
                a_view(a_gpu_gang("b/r/t", gang_queue="b", gang_priority=1)),
                low("c", "n2", gang_queue="b", gang_priority=0),
                nodes=gpu_nodes(2),
                queues=(a_queue("a", a_quota(4), cohort="all"), a_queue("b", a_quota(12), cohort="all")),
            ),
            id="by quota and priority",
        ),
    ],
)
def test_plans_settle_when_each_is_carried_out(snapshot: Snapshot) -> None:
    assert settles(snapshot) < 4


def test_plans_settle_when_the_order_preempts() -> None:
    policy = a_policy(order=Order.SRSF, preempts_by_order=True)
    gangs = [a_view(a_gpu_gang(f"g{number}/r/t", minutes=600 + number)) for number in range(4)]
    assert settles(a_snapshot(*gangs, nodes=gpu_nodes(2), policy=policy)) == 1
