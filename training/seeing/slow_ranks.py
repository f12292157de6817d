"""Which of the ranks' straggler scores are worth a word. Knows no torch, so that pages can use it."""

from __future__ import annotations

from collections.abc import Sequence

SLOW = 1.2  # times the median


def slow_ranks(scores: Sequence[float]) -> str:
    """Names the slow ones, as "rank 3 (1.6x)"; empty if there are none."""
    return ", ".join(f"rank {rank} ({score:.1f}x)" for rank, score in enumerate(scores) if score >= SLOW)
