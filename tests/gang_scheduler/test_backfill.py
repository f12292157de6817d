"""What the first gang that finds no room means to those behind it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gang_scheduler.actions import WaitReason
from gang_scheduler.policy import Blocking, Order
from gang_scheduler.snapshot import GangView
from tests.builders import a_gpu_gang, a_policy, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

MINUTE = timedelta(minutes=1)


def running(name: str, node: str, *, gpus: int = 8, left: float) -> GangView:
    return a_running(a_gpu_gang(f"{name}/r/t", gpus=gpus, minutes=10 + left), node)


def waiting(name: str, *, waited: float, minutes: float | None, **fields: object) -> GangView:
    request = a_gpu_gang(f"{name}/r/t", minutes=minutes, **fields)  # type: ignore[arg-type]
    return a_view(request, waited=waited * MINUTE)


# n1 is held for 30 more minutes, n2 is free, and the first in line wants both.
HELD = running("held", "n1", left=30)
FIRST = waiting("first", waited=50, minutes=60, workers=2)


@pytest.mark.parametrize(
    ("blocking", "minutes", "passes"),
    [
        pytest.param(Blocking.HEAD, 1, False, id="head: nobody"),
        pytest.param(Blocking.EASY, 30, True, id="easy: ends as the reservation starts"),
        pytest.param(Blocking.EASY, 31, False, id="easy: ends a minute too late"),
        pytest.param(Blocking.EASY, None, False, id="easy: might end too late"),
        pytest.param(Blocking.CONSERVATIVE, 30, True, id="conservative: ends in time"),
        pytest.param(Blocking.CONSERVATIVE, 31, False, id="conservative: ends too late"),
        pytest.param(Blocking.NONE, 999, True, id="none: anybody"),
    ],
)
def test_gang_passes_the_first_when_blocking_lets_it(blocking: Blocking, minutes: float | None, passes: bool) -> None:
    policy = a_policy(blocking=blocking, order=Order.FIFO)
    gangs = (HELD, FIRST, waiting("second", waited=1, minutes=minutes))
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), policy=policy))
    assert plan.admitted == (["second/r/t"] if passes else [])
    assert plan.waits["first/r/t"] is WaitReason.NO_CAPACITY
    if not passes:
        expected = WaitReason.BEHIND_ANOTHER_GANG if blocking is Blocking.HEAD else WaitReason.RESERVED
        assert plan.waits["second/r/t"] is expected


def test_sentence_names_the_one_it_would_delay_when_it_is_kept_waiting() -> None:
    plan = planned(a_snapshot(HELD, FIRST, waiting("second", waited=1, minutes=99), nodes=gpu_nodes(2)))
    assert "would delay gang 'first/r/t'" in plan.sentence("second/r/t")
    assert "one that ends sooner might pass" in plan.sentence("second/r/t")


@pytest.mark.parametrize("minutes", [pytest.param(999, id="long"), pytest.param(None, id="unknown")])
def test_gang_of_any_length_passes_when_it_goes_where_the_first_will_not(minutes: float | None) -> None:
    gangs = (HELD, FIRST, waiting("second", waited=1, minutes=minutes))
    plan = planned(a_snapshot(*gangs, running("other", "n3", left=999), nodes=gpu_nodes(4)[:3]))
    assert plan.admitted == []
    held_too = (HELD, running("other", "n2", left=20), waiting("first", waited=50, minutes=60, workers=3))
    plan = planned(a_snapshot(*held_too, waiting("second", waited=1, minutes=minutes, gpus=4), nodes=gpu_nodes(4)))
    assert plan.nodes("first/r/t") == {"n3": 1, "n4": 1, "n1": 1} if "first/r/t" in plan.admitted else True


def test_gang_of_unknown_duration_goes_beside_the_reservation_when_there_is_room() -> None:
    """n1 is free in 30 minutes and reserved; n2 has half a node, which the first cannot use."""
    half = running("half", "n2", gpus=4, left=999)
    first = waiting("first", waited=50, minutes=60)
    plan = planned(a_snapshot(HELD, half, first, waiting("second", waited=1, minutes=None, gpus=4), nodes=gpu_nodes(2)))
    assert plan.nodes("second/r/t") == {"n2": 1}


def test_gang_goes_to_other_nodes_when_the_tightest_ones_are_reserved() -> None:
    """The free half of n1 is the tightest fit, but the first in line gets n1 when its other half ends."""
    gangs = (
        running("half", "n1", gpus=4, left=30),
        running("third", "n2", gpus=3, left=999),
        waiting("first", waited=50, minutes=60),
        waiting("second", waited=1, minutes=None, gpus=4),
    )
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2)))
    assert plan.nodes("second/r/t") == {"n2": 1}


@pytest.mark.parametrize(
    ("blocking", "passes"),
    [pytest.param(Blocking.EASY, True, id="easy"), pytest.param(Blocking.CONSERVATIVE, False, id="conservative")],
)
def test_second_in_line_is_delayed_only_when_it_has_no_reservation_of_its_own(blocking: Blocking, passes: bool) -> None:
    """The first waits for n1, the second for n2; the third would take n2 once the first is sure of its start."""
    gangs = (
        running("held-1", "n1", left=30),
        running("held-2", "n2", gpus=4, left=40),
        waiting("first", waited=90, minutes=60, workers=1, gpus=8),
        waiting("second", waited=80, minutes=60, gpus=8),
        waiting("third", waited=1, minutes=999, gpus=4),
    )
    policy = a_policy(blocking=blocking, order=Order.FIFO)
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), policy=policy))
    assert plan.admitted == (["third/r/t"] if passes else [])


def test_no_more_is_reserved_than_the_depth_when_conservative() -> None:
    gangs = (
        running("held-1", "n1", left=30),
        running("held-2", "n2", gpus=4, left=40),
        waiting("first", waited=90, minutes=60),
        waiting("second", waited=80, minutes=60),
        waiting("third", waited=1, minutes=999, gpus=4),
    )
    policy = a_policy(blocking=Blocking.CONSERVATIVE, order=Order.FIFO, reservation_depth=1)
    assert planned(a_snapshot(*gangs, nodes=gpu_nodes(2), policy=policy)).admitted == ["third/r/t"]


def test_pools_have_reservations_of_their_own_when_the_first_of_each_waits() -> None:
    nodes = (*gpu_nodes(2), *(gpu_nodes(2, pool="other")))
    gangs = (
        HELD,
        FIRST,
        a_running(a_gpu_gang("held-2/r/t", gang_pool="other", minutes=40), "n1"),
        waiting("first-2", waited=40, minutes=60, workers=2, gang_pool="other"),
        waiting("second", waited=1, minutes=99),
        waiting("second-2", waited=1, minutes=99, gang_pool="other"),
    )
    assert planned(a_snapshot(*gangs, nodes=nodes)).admitted == []


def test_backfilled_gangs_share_what_is_free_until_the_reservation_when_there_are_several() -> None:
    gangs = (HELD, FIRST, *(waiting(f"small-{number}", waited=1, minutes=20, gpus=3) for number in range(4)))
    assert planned(a_snapshot(*gangs, nodes=gpu_nodes(2))).admitted == ["small-0/r/t", "small-1/r/t"]


def test_next_in_line_has_the_reservation_when_the_first_could_never_start() -> None:
    never = waiting("never", waited=90, minutes=1, workers=9)
    gangs = (HELD, never, FIRST, waiting("second", waited=1, minutes=31))
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), policy=a_policy(order=Order.FIFO)))
    assert plan.admitted == []


def test_gang_waits_behind_nobody_when_the_first_could_never_start() -> None:
    gangs = (HELD, waiting("first", waited=50, minutes=60, workers=9), waiting("second", waited=1, minutes=999))
    for blocking in Blocking:
        plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), policy=a_policy(blocking=blocking)))
        assert plan.admitted == ["second/r/t"], blocking
