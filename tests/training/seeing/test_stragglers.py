"""Which rank is said to be slow."""

from __future__ import annotations

import pytest

from training.seeing.slow_ranks import slow_ranks
from training.seeing.stragglers import gather_seconds, straggler_scores


@pytest.mark.parametrize(
    ("seconds", "scores"),
    [([2.0, 2.0], [1.0, 1.0]), ([1.0, 1.0, 1.0, 3.0], [1.0, 1.0, 1.0, 3.0]), ([0.0, 0.0], [1.0, 1.0])],
    ids=["alike", "one slow", "no time"],
)
def test_score_is_the_time_over_the_median(seconds: list[float], scores: list[float]) -> None:
    assert straggler_scores(seconds) == scores


def test_slow_ranks_are_named_when_there_are_any() -> None:
    assert slow_ranks([1.0, 1.0, 1.5, 3.0]) == "rank 2 (1.5x), rank 3 (3.0x)"
    assert slow_ranks([1.0, 1.1]) == ""


def test_a_rank_alone_gathers_its_own() -> None:
    assert gather_seconds(3.0) == [3.0]
