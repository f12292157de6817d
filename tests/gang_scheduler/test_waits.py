"""Those who wait for a reason of their own; what each one that waits is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gang_scheduler.actions import WaitReason
from gang_scheduler.gang_queue import QueueView
from gang_scheduler.policy import Blocking
from gang_scheduler.snapshot import GangView
from tests.builders import NOON, a_gpu_gang, a_policy, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

MINUTE = timedelta(minutes=1)
HELD = a_running(a_gpu_gang("held/r/t", gpus=6), "n1")


@pytest.mark.parametrize(
    ("gang", "reason", "sentence"),
    [
        pytest.param(
            a_view(a_gpu_gang("a/r/t"), is_held=True, held_why="until Monday"),
            WaitReason.HELD,
            "held: until Monday",
            id="held",
        ),
        pytest.param(
            a_view(a_gpu_gang("a/r/t"), not_before=NOON + MINUTE, attempt=2),
            WaitReason.BACKING_OFF,
            "attempt 3 starts not before 12:01:00 UTC",
            id="backs off",
        ),
        pytest.param(
            a_view(a_gpu_gang("a/r/t", gang_pool="tpu")),
            WaitReason.NO_NODES,
            "gang pool 'tpu' can take no gang now: it has no nodes",
            id="no such pool",
        ),
    ],
)
def test_gang_waits_and_is_told_why_when_it_is_its_own_matter(
    gang: GangView, reason: WaitReason, sentence: str
) -> None:
    plan = planned(a_snapshot(gang, nodes=gpu_nodes(1)))
    assert plan.waits == {"a/r/t": reason}
    assert plan.sentence("a/r/t") == sentence


def test_gang_starts_when_it_is_held_no_more_and_has_backed_off() -> None:
    gang = a_view(a_gpu_gang("a/r/t"), not_before=NOON)
    assert planned(a_snapshot(gang, nodes=gpu_nodes(1))).admitted == ["a/r/t"]


@pytest.mark.parametrize(
    ("gangs", "queues", "blocking", "parts"),
    [
        pytest.param(
            (a_view(a_gpu_gang("a/r/t")),),
            (),
            Blocking.EASY,
            ("asks 1 worker (8 CPUs, 8 GPUs)", "512 GiB, 2 GPUs free of", "held by held/r/t (6 CPUs, 6 GPUs, running)"),
            id="short of capacity",
        ),
        pytest.param(
            (a_view(a_gpu_gang("a/r/t", workers=2)),),
            (),
            Blocking.EASY,
            ("asks 2 workers", "when empty, which does not hold the whole gang"),
            id="never fits",
        ),
        pytest.param(
            (
                a_view(a_gpu_gang("first/r/t"), waited=9 * MINUTE),
                a_view(a_gpu_gang("a/r/t", gpus=1)),
            ),
            (),
            Blocking.HEAD,
            (
                "'first/r/t' (priority 0, asked at 2026-03-01 11:51:00 UTC) is before it",
                "waits for 8 CPUs, 8 GPUs",
            ),
            id="behind another",
        ),
        pytest.param(
            (a_view(a_gpu_gang("a/r/t", gpus=2, gang_queue="q")),),
            (a_queue("q", a_quota(1)),),
            Blocking.EASY,
            ("gang queue 'q' holds 0 gpus of pool 'gpu' of at most 1 (1 nominal", "the gang asks 2"),
            id="short of quota",
        ),
        pytest.param(
            (a_view(a_gpu_gang("a/r/t", gang_priority=1)),),
            (),
            Blocking.EASY,
            ("others stop with a checkpoint to make room for it",),
            id="others make room",
        ),
    ],
)
def test_sentence_says_what_is_asked_what_is_short_and_what_would_free_it_when_a_gang_waits(
    gangs: tuple[GangView, ...], queues: tuple[QueueView, ...], blocking: Blocking, parts: tuple[str, ...]
) -> None:
    policy = a_policy(blocking=blocking)
    plan = planned(a_snapshot(HELD, *gangs, nodes=gpu_nodes(1), queues=queues, policy=policy))
    for part in parts:
        assert part in plan.sentence("a/r/t")


def test_only_five_holders_are_named_when_there_are_more() -> None:
    held = [a_running(a_gpu_gang(f"h{number}/r/t", gpus=1), "n1") for number in range(8)]
    plan = planned(a_snapshot(*held, a_view(a_gpu_gang("a/r/t")), nodes=gpu_nodes(1)))
    assert "h4/r/t (1 CPU, 1 GPU, running) and 3 more" in plan.sentence("a/r/t")


def test_whoever_is_far_back_is_told_anew_only_when_the_reason_changes() -> None:
    held = a_running(a_gpu_gang("held/r/t"), "n1")
    told = [
        a_view(a_gpu_gang(f"g{number:02}/r/t"), wait_reason=WaitReason.NO_CAPACITY.value, wait_sentence="old words")
        for number in range(30)
    ]
    plan = planned(a_snapshot(held, *told, nodes=gpu_nodes(1)))
    assert set(plan.waits) == {f"g{number:02}/r/t" for number in range(20)}
