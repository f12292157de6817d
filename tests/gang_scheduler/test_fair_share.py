"""Whose turn it is among queues: nominal before borrowed, then the least weighted dominant share, history included."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from gang_scheduler.gang import WorkerGroup
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView
from tests.builders import a_gpu_gang, a_policy, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import Planned, planned

MINUTE = timedelta(minutes=1)
WEEK_S = 7 * 24 * 3600.0


def backlog(queue: str, count: int = 8, waited: float = 1, **fields: object) -> list[GangView]:
    """Gangs of one GPU each."""
    return [
        a_view(a_gpu_gang(f"{queue}-{number}/r/t", gpus=1, gang_queue=queue, **fields), waited=waited * MINUTE)  # type: ignore[arg-type]
        for number in range(count)
    ]


def by_queue(plan: Planned) -> dict[str, int]:
    return dict(Counter(gang_id.split("-")[0] for gang_id in plan.admitted))


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        pytest.param((), {"a": 4, "b": 4}, id="no queue is configured"),
        pytest.param((a_queue("a"), a_queue("b")), {"a": 4, "b": 4}, id="equal weights"),
        pytest.param((a_queue("a", weight=3), a_queue("b")), {"a": 6, "b": 2}, id="three times the weight"),
        pytest.param((a_queue("a", weight=0), a_queue("b")), {"b": 8}, id="no weight: only what is left"),
        pytest.param(
            (a_queue("a", usage=WEEK_S), a_queue("b")), {"a": 1, "b": 7}, id="one has used 7 tenths of a share"
        ),
        pytest.param(
            (a_queue("a", usage=WEEK_S), a_queue("b", usage=WEEK_S)), {"a": 4, "b": 4}, id="both have used as much"
        ),
    ],
)
def test_queues_share_by_weight_and_history_when_one_asked_long_before(
    queues: tuple[QueueView, ...], expected: dict[str, int]
) -> None:
    gangs = (*backlog("a", waited=60), *backlog("b"))
    assert by_queue(planned(a_snapshot(*gangs, nodes=gpu_nodes(1), queues=queues))) == expected


def test_queue_that_asked_first_gets_all_when_shares_are_not_fair() -> None:
    gangs = (*backlog("a", waited=60), *backlog("b"))
    policy = a_policy(fair_share=False)
    assert by_queue(planned(a_snapshot(*gangs, nodes=gpu_nodes(1), policy=policy))) == {"a": 8}


def test_queue_waits_when_it_holds_more_already() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=4, gang_queue="a"), "n1")
    plan = planned(a_snapshot(held, *backlog("a", waited=60), *backlog("b"), nodes=gpu_nodes(1)))
    assert by_queue(plan) == {"b": 4}


def test_share_is_that_of_the_scarcest_resource_when_queues_hold_different_ones() -> None:
    """DRF: 2 of 8 GPUs (a quarter) weigh more than 8 of 64 CPUs (an eighth)."""
    cpu_gang = a_gpu_gang("cpu/r/t", gang_queue="c", worker_groups=(WorkerGroup("trainer", 1, Resources(cpus=8)),))
    held = (a_running(a_gpu_gang("gpu/r/t", gpus=2, gang_queue="g"), "n1"), a_running(cpu_gang, "n1"))
    gangs = (*backlog("g", 1, waited=60), *backlog("c", 1))
    snapshot = a_snapshot(*held, *gangs, nodes=gpu_nodes(1), policy=a_policy())
    assert planned(snapshot).admitted == ["c-0/r/t", "g-0/r/t"]


def test_priority_goes_before_fairness_when_a_favoured_queue_asks_for_more() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=4, gang_queue="a"), "n1")
    gangs = (*backlog("a", gang_priority=1), *backlog("b", waited=60))
    assert by_queue(planned(a_snapshot(held, *gangs, nodes=gpu_nodes(1)))) == {"a": 4}


def test_queue_within_its_quota_goes_first_when_another_would_borrow() -> None:
    queues = (
        a_queue("a", a_quota(2), cohort="all", weight=100),
        a_queue("b", a_quota(6), cohort="all"),
    )
    gangs = (*backlog("a", waited=60), *backlog("b"))
    assert by_queue(planned(a_snapshot(*gangs, nodes=gpu_nodes(1), queues=queues))) == {"a": 2, "b": 6}
