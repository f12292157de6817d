"""Time windows of queues, and queues that only harvest what is idle."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.pool import DailyWindow
from tests.builders import NOON, a_gpu_gang, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

NIGHT = DailyWindow(22, 6)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("window", "hour", "is_open"),
    [
        pytest.param(DailyWindow(8, 18), 8, True, id="as it opens"),
        pytest.param(DailyWindow(8, 18), 18, False, id="as it closes"),
        pytest.param(DailyWindow(8, 18), 17.99, True, id="before it closes"),
        pytest.param(NIGHT, 23, True, id="before midnight"),
        pytest.param(NIGHT, 0, True, id="at midnight"),
        pytest.param(NIGHT, 5.5, True, id="after midnight"),
        pytest.param(NIGHT, 6, False, id="in the morning"),
        pytest.param(NIGHT, 12, False, id="at noon"),
        pytest.param(DailyWindow(0, 24), 23.9, True, id="all day"),
    ],
)
def test_window_holds_when_the_hour_lies_in_it(window: DailyWindow, hour: float, is_open: bool) -> None:
    now = NOON.replace(hour=0) + hour * HOUR
    queues = (a_queue("night", windows=(window,)),)
    plan = planned(
        a_snapshot(a_view(a_gpu_gang("a/r/t", gang_queue="night")), nodes=gpu_nodes(1), queues=queues, now=now)
    )
    assert plan.admitted == (["a/r/t"] if is_open else [])
    if not is_open:
        assert plan.waits == {"a/r/t": WaitReason.WINDOW}
        assert "[queue.night] windows" in plan.sentence("a/r/t")


def test_others_pass_when_the_queue_of_the_first_is_closed() -> None:
    first = a_view(a_gpu_gang("a/r/t", gang_queue="night", gang_priority=9), waited=9 * HOUR)
    queues = (a_queue("night", windows=(NIGHT,)),)
    plan = planned(a_snapshot(first, a_view(a_gpu_gang("b/r/t")), nodes=gpu_nodes(1), queues=queues))
    assert plan.admitted == ["b/r/t"]


@pytest.mark.parametrize(
    ("harvests_only", "hour", "stops"),
    [
        pytest.param(True, 12, True, id="harvests, closed"),
        pytest.param(True, 23, False, id="harvests, open"),
        pytest.param(False, 12, False, id="has its own, closed: what runs goes on"),
    ],
)
def test_running_gang_stops_when_its_harvesting_queue_closes(harvests_only: bool, hour: int, stops: bool) -> None:
    queues = (a_queue("night", windows=(NIGHT,), harvests_only=harvests_only),)
    running = a_running(a_gpu_gang("a/r/t", gang_queue="night"), "n1")
    snapshot = a_snapshot(running, nodes=gpu_nodes(1), queues=queues, now=NOON.replace(hour=hour))

    snapshot = replace(snapshot, gangs=(replace(running, lease_expires_at=None),))
    assert planned(snapshot).stops == ({"a/r/t": StopReason.WINDOW} if stops else {})


def test_harvesters_stop_before_other_borrowers_when_an_owner_wants_its_quota() -> None:
    queues = (
        a_queue("owner", a_quota(8), cohort="all"),
        a_queue("borrower", a_quota(0), cohort="all"),
        a_queue("harvest", a_quota(0), cohort="all", harvests_only=True),
    )
    running = (
        a_running(a_gpu_gang("b/r/t", gpus=4, gang_queue="borrower"), "n1", ran=HOUR / 6),
        a_running(a_gpu_gang("h/r/t", gpus=4, gang_queue="harvest"), "n1", ran=9 * HOUR),
    )
    waiting = a_view(a_gpu_gang("o/r/t", gpus=4, gang_queue="owner"))
    plan = planned(a_snapshot(*running, waiting, nodes=gpu_nodes(1), queues=queues))
    assert plan.stops == {"h/r/t": StopReason.RECLAIMED}


def test_harvester_stops_at_once_when_it_has_only_just_started() -> None:
    queues = (
        a_queue("owner", a_quota(8), cohort="all"),
        a_queue("harvest", a_quota(0), cohort="all", harvests_only=True),
    )
    running = a_running(a_gpu_gang("h/r/t", gang_queue="harvest"), "n1", ran=HOUR / 3600)
    waiting = a_view(a_gpu_gang("o/r/t", gang_queue="owner"))
    plan = planned(a_snapshot(running, waiting, nodes=gpu_nodes(1), queues=queues))
    assert plan.stops == {"h/r/t": StopReason.RECLAIMED}
