"""What a gang's heartbeat says of speed, memory and where time goes, in one sentence."""

from __future__ import annotations

from training.heartbeat import Heartbeat
from training.seeing.slow_ranks import slow_ranks

LEAST_SHARE = 0.05  # smaller parts of a step are left out


def seen_sentence(beat: Heartbeat) -> str:
    """Tokens/s, MFU, memory of rank 0, the large parts of a step, slow ranks and checkpoint age, as far as known."""
    parts = []
    if beat.tokens_per_s is not None:
        parts.append(f"{beat.tokens_per_s:,.0f} tokens/s")
    if beat.mfu is not None:
        parts.append(f"MFU {beat.mfu:.1%}")
    if beat.rss_bytes is not None:
        parts.append(f"{beat.rss_bytes / 2**30:.1f} GiB resident")
    if beat.gpu_peak_bytes is not None:
        parts.append(f"{beat.gpu_peak_bytes / 2**30:.1f} GiB of GPU memory at most")
    total_s = sum((beat.step_seconds or {}).values())
    if beat.step_seconds and total_s > 0:
        large = sorted(beat.step_seconds.items(), key=lambda item: -item[1])
        shares = [f"{part} {seconds / total_s:.0%}" for part, seconds in large if seconds / total_s >= LEAST_SHARE]
        parts.append(f"{total_s * 1000:.1f} ms a step ({', '.join(shares)})")
    if slow := slow_ranks(beat.straggler_scores or ()):
        parts.append(f"slow: {slow}")
    if beat.checkpoint_age_s is not None:
        parts.append(f"{beat.checkpoint_age_s:.0f} s since the last checkpoint")
    return ", ".join(parts)
