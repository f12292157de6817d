"""What is said of a heartbeat."""

from __future__ import annotations

from dataclasses import replace

from phalanx_cli.seen import seen_sentence
from tests.training.test_heartbeat import BEAT


def test_sentence_says_what_is_known_with_the_large_parts_first() -> None:
    beat = replace(
        BEAT,
        tokens_per_s=12_300.0,
        mfu=0.412,
        rss_bytes=2**30,
        gpu_peak_bytes=3 * 2**30,
        step_seconds={"data": 0.0001, "forward": 0.004, "backward": 0.0059},
        straggler_scores=[1.0, 1.6],
        checkpoint_age_s=12.4,
    )
    assert seen_sentence(beat) == (
        "12,300 tokens/s, MFU 41.2%, 1.0 GiB resident, 3.0 GiB of GPU memory at most, "
        "10.0 ms a step (backward 59%, forward 40%), slow: rank 1 (1.6x), 12 s since the last checkpoint"
    )


def test_nothing_is_said_when_nothing_is_known() -> None:
    assert seen_sentence(BEAT) == ""
