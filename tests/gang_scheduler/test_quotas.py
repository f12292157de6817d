"""Quotas: nominal, borrowed, lent; caps; reclaiming what was borrowed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.policy import Blocking, Order
from gang_scheduler.snapshot import GangView
from tests.builders import a_gpu_gang, a_policy, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import carried_out, planned

MINUTE = timedelta(minutes=1)


def running(name: str, queue: str, gpus: int, node: str = "n1", **fields: object) -> GangView:
    return a_running(a_gpu_gang(f"{name}/r/t", gpus=gpus, gang_queue=queue, **fields), node)  # type: ignore[arg-type]


def waiting(name: str, queue: str, gpus: int, waited: float = 1, **fields: object) -> GangView:
    request = a_gpu_gang(f"{name}/r/t", gpus=gpus, gang_queue=queue, **fields)  # type: ignore[arg-type]
    return a_view(request, waited=waited * MINUTE)


def pair(*, borrow: float | None = None, lend: float | None = None) -> tuple[QueueView, QueueView]:
    """Two queues of one cohort, 4 GPUs each; the first borrows, the second lends."""
    return (
        a_queue("a", a_quota(4, borrow=borrow), cohort="all"),
        a_queue("b", a_quota(4, lend=lend), cohort="all"),
    )


@pytest.mark.parametrize(
    ("queues", "held", "gpus", "is_admitted"),
    [
        pytest.param((a_queue("a", a_quota(4)),), 0, 4, True, id="all of the nominal quota"),
        pytest.param((a_queue("a", a_quota(4)),), 0, 5, False, id="above it"),
        pytest.param((a_queue("a", a_quota(4)),), 3, 2, False, id="above it with what it holds"),
        pytest.param((a_queue("a", a_quota(4)),), 2, 2, True, id="within it with what it holds"),
        pytest.param((a_queue("a", a_quota(4), cohort="all"),), 0, 5, False, id="alone in its cohort"),
        pytest.param(pair(), 0, 8, True, id="borrows all of the cohort"),
        pytest.param(pair(borrow=2), 0, 6, True, id="borrows as much as it may"),
        pytest.param(pair(borrow=2), 0, 7, False, id="borrows no more than it may"),
        pytest.param(pair(borrow=0), 0, 5, False, id="may borrow nothing"),
        pytest.param(pair(lend=1), 0, 5, True, id="borrows what is lent"),
        pytest.param(pair(lend=1), 0, 6, False, id="not what is not lent"),
        pytest.param(pair(lend=0), 4, 1, False, id="nothing is lent"),
        pytest.param((), 0, 8, True, id="a queue that is not configured has no limits"),
        pytest.param((a_queue("a", a_quota(1, pool="other")),), 0, 8, True, id="a quota of another pool"),
        pytest.param((a_queue("a", a_quota(9), a_quota(3, resource="cpus")),), 0, 4, False, id="CPUs are short"),
        pytest.param((a_queue("a", a_quota(9), max_gpus=4),), 2, 3, False, id="a cap on GPUs"),
        pytest.param((a_queue("a", max_gpus=4),), 2, 2, True, id="up to a cap on GPUs"),
        pytest.param((a_queue("a", max_gangs=1),), 1, 1, False, id="a cap on gangs"),
        pytest.param((a_queue("a", max_gangs=2),), 1, 1, True, id="up to a cap on gangs"),
    ],
)
def test_queue_gets_its_quota_and_what_it_may_borrow_when_the_pool_is_free(
    queues: tuple[QueueView, ...], held: int, gpus: int, is_admitted: bool
) -> None:
    gangs = [running("held", "a", held)] if held else []
    plan = planned(a_snapshot(*gangs, waiting("new", "a", gpus), nodes=gpu_nodes(2), queues=queues))
    assert bool(plan.admitted) is is_admitted
    if not is_admitted:
        assert plan.waits == {"new/r/t": WaitReason.QUOTA}


def test_cohort_lends_nothing_twice_when_two_queues_borrow() -> None:
    queues = tuple(a_queue(name, a_quota(nominal), cohort="all") for name, nominal in (("a", 2), ("b", 2), ("c", 4)))
    gangs = (waiting("a", "a", 6), waiting("b", "b", 6))
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), queues=queues))
    assert len(plan.admitted) == 1, "8 GPUs of quota, of which 6 are held"


def test_borrowing_ends_when_the_owner_uses_its_own() -> None:
    gangs = (running("held", "b", 3), waiting("new", "a", 6))
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), queues=pair()))
    assert plan.waits == {"new/r/t": WaitReason.QUOTA}
    assert "cohort 'all', where 5 of 8 are left ([queue.a.quota.gpu])" in plan.sentence("new/r/t")


def test_sentence_says_what_is_held_asked_and_allowed_when_the_quota_is_short() -> None:
    plan = planned(
        a_snapshot(
            running("held", "a", 3), waiting("new", "a", 2), nodes=gpu_nodes(1), queues=(a_queue("a", a_quota(4)),)
        )
    )
    assert plan.sentence("new/r/t") == (
        "gang queue 'a' holds 3 gpus of pool 'gpu' of at most 4 (4 nominal, [queue.a.quota.gpu]); the gang asks 2"
    )


def test_quota_of_one_plan_is_given_once_when_several_gangs_want_it() -> None:
    gangs = [waiting(f"g{number}", "a", 2) for number in range(5)]
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), queues=(a_queue("a", a_quota(5)),)))
    assert len(plan.admitted) == 2


def test_gang_of_another_queue_passes_when_the_first_waits_for_its_quota_only() -> None:
    gangs = (waiting("first", "a", 5, waited=9), waiting("second", "b", 8))
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(1), queues=(a_queue("a", a_quota(4)),)))
    assert plan.admitted == ["second/r/t"]


@pytest.mark.parametrize(
    ("blocking", "minutes", "passes"),
    [
        pytest.param(Blocking.EASY, 5, True, id="ends before the quota is free again"),
        pytest.param(Blocking.EASY, 50, False, id="would delay the first"),
        pytest.param(Blocking.EASY, None, False, id="might delay the first"),
        pytest.param(Blocking.HEAD, 5, False, id="head of line"),
        pytest.param(Blocking.NONE, 50, True, id="no blocking"),
    ],
)
def test_gang_passes_the_first_of_its_queue_when_that_is_not_delayed(
    blocking: Blocking, minutes: float | None, passes: bool
) -> None:
    gangs = (
        a_running(a_gpu_gang("held/r/t", gpus=2, gang_queue="a", minutes=20), "n1", ran=10 * MINUTE),
        waiting("first", "a", 4, waited=9, minutes=60),
        waiting("second", "a", 2, minutes=minutes),
    )
    policy = a_policy(blocking=blocking, order=Order.FIFO)
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(2), queues=(a_queue("a", a_quota(4)),), policy=policy))
    assert plan.admitted == (["second/r/t"] if passes else [])


# --- reclaiming


@pytest.mark.parametrize(
    ("borrower", "ran", "asked", "fields", "stops"),
    [
        pytest.param({}, 10, 4, {}, True, id="within its own quota"),
        pytest.param({}, 4, 4, {}, False, id="the borrower has only just started"),
        pytest.param({"gang_priority": -1}, 4, 4, {}, True, id="just started, of lower priority"),
        pytest.param({"gang_priority": 1}, 10, 4, {}, False, id="the borrower has a higher priority"),
        pytest.param({}, 10, 5, {}, False, id="would borrow itself"),
        pytest.param({"is_preemptible": False}, 10, 4, {}, False, id="the borrower is not to be preempted"),
        pytest.param({}, 10, 4, {"reclaims_quota": False}, False, id="the policy reclaims nothing"),
    ],
)
def test_owner_gets_its_quota_back_when_it_was_borrowed(
    borrower: dict[str, object], ran: float, asked: int, fields: dict[str, object], stops: bool
) -> None:
    request = a_gpu_gang("borrower/r/t", gpus=8, gang_queue="a", **borrower)  # type: ignore[arg-type]
    snapshot = a_snapshot(
        a_running(request, "n1", ran=ran * MINUTE),
        waiting("owner", "b", asked),
        nodes=gpu_nodes(1),
        queues=pair(),
        policy=a_policy(**fields),
    )
    plan = planned(snapshot)
    assert plan.stops == ({"borrower/r/t": StopReason.RECLAIMED} if stops else {})
    if stops:
        assert plan.waits["owner/r/t"] is WaitReason.PREEMPTING
        assert "gang queue 'a' borrowed what gang 'owner/r/t' is owed" in plan.sentence("borrower/r/t")


def test_only_what_was_borrowed_is_reclaimed_when_the_borrower_has_several_gangs() -> None:
    held = [running(f"held-{number}", "a", 2) for number in range(4)]
    snapshot = a_snapshot(*held, waiting("owner", "b", 4), nodes=gpu_nodes(1), queues=pair())
    plan = planned(snapshot)
    assert len(plan.stops) == 2
    after = planned(carried_out(snapshot, plan.actions, MINUTE))
    assert "owner/r/t" in after.admitted


def test_gangs_within_their_own_quota_stay_when_another_queue_wants_more() -> None:
    held = (running("held", "a", 4), running("own", "b", 4))
    plan = planned(a_snapshot(*held, waiting("more", "b", 4), nodes=gpu_nodes(1), queues=pair()))
    assert plan.stops == {}


def test_queue_of_another_cohort_keeps_what_it_borrowed_when_an_owner_wants_its_own() -> None:
    queues = (*pair(), a_queue("c", a_quota(0), cohort="others"), a_queue("d", a_quota(8), cohort="others"))
    plan = planned(a_snapshot(running("held", "c", 8), waiting("owner", "b", 4), nodes=gpu_nodes(1), queues=queues))
    assert plan.stops == {}


def test_quota_is_reclaimed_when_the_nodes_are_free_but_the_cohort_is_spent() -> None:
    plan = planned(a_snapshot(running("held", "a", 8), waiting("owner", "b", 4), nodes=gpu_nodes(4), queues=pair()))
    assert plan.stops == {"held/r/t": StopReason.RECLAIMED}
