"""Whose turn it is inside one queue: priority, ageing, and the orders."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.policy import Blocking, Order
from gang_scheduler.snapshot import GangView
from tests.builders import NOON, a_gpu_gang, a_policy, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

MINUTE = timedelta(minutes=1)


def waiting(name: str, *, waited: float = 1, ran: float = 0, **fields: object) -> GangView:
    request = a_gpu_gang(f"{name}/r/t", **fields)  # type: ignore[arg-type]
    return a_view(request, waited=waited * MINUTE, running_spent=ran * MINUTE)


def first_in(order: Order, *gangs: GangView, **fields: object) -> str:
    """Who gets the one node."""
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(1), policy=a_policy(order=order, **fields)))
    assert len(plan.admitted) == 1
    return plan.admitted[0].split("/")[0]


@pytest.mark.parametrize(
    ("order", "gangs", "expected"),
    [
        pytest.param(Order.FIFO, (waiting("a", waited=1), waiting("b", waited=2)), "b", id="fifo"),
        pytest.param(Order.FIFO, (waiting("b"), waiting("a")), "a", id="fifo, asked at once: by name"),
        pytest.param(Order.SJF, (waiting("a", minutes=9, waited=9), waiting("b", minutes=8)), "b", id="sjf"),
        pytest.param(
            Order.SJF, (waiting("a", waited=9), waiting("b", minutes=59)), "b", id="sjf, unknown is assumed an hour"
        ),
        pytest.param(Order.SJF, (waiting("a"), waiting("b", minutes=61)), "a", id="sjf, unknown before longer"),
        pytest.param(
            Order.SRSF,
            (waiting("a", minutes=10, gpus=8), waiting("b", minutes=15, gpus=5)),
            "b",
            id="srsf weighs by GPUs",
        ),
        pytest.param(
            Order.SRSF, (waiting("a", minutes=20, ran=15), waiting("b", minutes=6)), "a", id="srsf by what is left"
        ),
        pytest.param(Order.LAS, (waiting("a", ran=60, waited=9), waiting("b")), "b", id="las: who got less"),
        pytest.param(Order.LAS, (waiting("a", ran=1), waiting("b", waited=9)), "b", id="las: of one class, fifo"),
        pytest.param(
            Order.LAS,
            (waiting("a", ran=20, gpus=8, waited=9), waiting("b", ran=20, gpus=5)),
            "b",
            id="las weighs by GPUs",
        ),
        pytest.param(
            Order.DUE, (waiting("a", minutes=60, waited=100), waiting("b", minutes=10)), "b", id="due: the short passes"
        ),
        pytest.param(
            Order.DUE,
            (waiting("a", minutes=60, waited=502), waiting("b", minutes=10)),
            "a",
            id="due: nobody is passed for ever",
        ),
        pytest.param(Order.DUE, (waiting("a"), waiting("b", waited=2)), "b", id="due, durations unknown: fifo"),
    ],
)
def test_first_by_the_order_starts_when_there_is_room_for_one(
    order: Order, gangs: tuple[GangView, ...], expected: str
) -> None:
    assert first_in(order, *gangs) == expected


@pytest.mark.parametrize("order", list(Order))
def test_higher_priority_starts_first_when_the_order_says_otherwise(order: Order) -> None:
    low = waiting("a", minutes=1, waited=99, gpus=5)
    high = waiting("b", minutes=999, gang_priority=1, ran=99)
    assert first_in(order, low, high) == "b"


@pytest.mark.parametrize("blocking", list(Blocking))
def test_lower_priority_waits_when_a_higher_one_fits(blocking: Blocking) -> None:
    gangs = [waiting(f"low-{number}", gpus=4, waited=9) for number in range(2)]
    gangs += [waiting(f"high-{number}", gpus=4, gang_priority=1) for number in range(2)]
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(1), policy=a_policy(blocking=blocking)))
    assert plan.admitted == ["high-0/r/t", "high-1/r/t"]


@pytest.mark.parametrize(
    ("waited_days", "expected"),
    [pytest.param(6, "b", id="not yet"), pytest.param(7, "a", id="aged"), pytest.param(8, "a", id="long aged")],
)
def test_gang_goes_first_of_its_priority_when_it_has_waited_long_enough(waited_days: int, expected: str) -> None:
    old = waiting("a", minutes=99999, waited=waited_days * 24 * 60)
    assert first_in(Order.SJF, old, waiting("b", minutes=1)) == expected


def test_gang_does_not_age_when_the_policy_says_never() -> None:
    old = waiting("a", minutes=99999, waited=99 * 24 * 60)
    assert first_in(Order.SJF, old, waiting("b", minutes=1), aged_after=None) == "b"


def test_only_waiting_ages_when_a_gang_has_also_run() -> None:
    request = a_gpu_gang("a/r/t", minutes=99999)
    has_run = a_view(request, submitted_at=NOON - timedelta(days=9), running_spent=timedelta(days=8))
    has_waited = a_view(request, submitted_at=NOON - timedelta(days=9), queued_spent=timedelta(days=7))
    assert first_in(Order.SJF, has_run, waiting("b", minutes=1)) == "b"
    assert first_in(Order.SJF, has_waited, waiting("b", minutes=1)) == "a"


def test_aged_gang_stays_behind_when_another_has_a_higher_priority() -> None:
    old = waiting("a", waited=8 * 24 * 60)
    assert first_in(Order.FIFO, old, waiting("b", gang_priority=1)) == "b"


# --- preemption by the order


@pytest.mark.parametrize(
    ("ran", "left", "new", "fields", "stops"),
    [
        pytest.param(10, 60, 20, {}, True, id="the new one is far shorter"),
        pytest.param(4, 60, 20, {}, False, id="it has not run for long enough"),
        pytest.param(10, 60, 58, {}, False, id="hardly shorter: within the hysteresis"),
        pytest.param(10, 60, 58, {"hysteresis": 1.0}, True, id="hardly shorter, no hysteresis"),
        pytest.param(10, 60, 70, {}, False, id="longer"),
        pytest.param(10, 60, 20, {"preempts_by_order": False}, False, id="not by order"),
    ],
)
def test_running_gang_makes_room_when_the_order_puts_it_far_behind(
    ran: float, left: float, new: float, fields: dict[str, object], stops: bool
) -> None:
    running = a_running(a_gpu_gang("old/r/t", minutes=ran + left), "n1", ran=ran * MINUTE)
    policy = a_policy(**({"order": Order.SRSF, "preempts_by_order": True} | fields))
    plan = planned(a_snapshot(running, waiting("new", minutes=new), nodes=gpu_nodes(1), policy=policy))
    assert plan.stops == ({"old/r/t": StopReason.PREEMPTED} if stops else {})
    assert plan.waits["new/r/t"] is (WaitReason.PREEMPTING if stops else WaitReason.NO_CAPACITY)


@pytest.mark.parametrize(
    ("ran_hours", "stops"), [pytest.param(1.9, False, id="one class"), pytest.param(2.1, True, id="two classes")]
)
def test_running_gang_makes_room_when_it_got_classes_more_service(ran_hours: float, stops: bool) -> None:
    policy = a_policy(order=Order.LAS, preempts_by_order=True, las_gap=2, las_first=timedelta(hours=8), las_factor=2.0)
    running = a_running(a_gpu_gang("old/r/t"), "n1", ran=timedelta(hours=ran_hours))
    plan = planned(a_snapshot(running, waiting("new"), nodes=gpu_nodes(1), policy=policy))
    assert bool(plan.stops) is stops


def test_running_gang_is_left_alone_by_the_order_when_it_had_aged() -> None:
    running = a_running(a_gpu_gang("old/r/t", minutes=999), "n1", queued_spent=timedelta(days=8))
    policy = a_policy(order=Order.SRSF, preempts_by_order=True)
    plan = planned(a_snapshot(running, waiting("new", minutes=1), nodes=gpu_nodes(1), policy=policy))
    assert plan.stops == {}
