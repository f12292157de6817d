"""Which rank is said to be slow."""

from __future__ import annotations

import pytest

from training.seeing.stragglers import gather_seconds, sentence, straggler_scores


@pytest.mark.parametrize(
    ("seconds", "scores"),
    [([2.0, 2.0], [1.0, 1.0]), ([1.0, 1.0, 1.0, 3.0], [1.0, 1.0, 1.0, 3.0]), ([0.0, 0.0], [1.0, 1.0])],
    ids=["alike", "one slow", "no time"],
)
def test_score_is_the_time_over_the_median(seconds: list[float], scores: list[float]) -> None:
    assert straggler_scores(seconds) == scores


def test_slow_ranks_are_named_when_there_are_any() -> None:
    assert "rank 3 (3.0x)" in sentence([1.0, 1.0, 1.0, 3.0])
    assert sentence([1.0, 1.1]) == ""


def test_a_rank_alone_gathers_its_own() -> None:
    assert gather_seconds(3.0) == [3.0]
