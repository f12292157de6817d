"""The learning rate as a function of the step: no state that a checkpoint would have to hold."""

from __future__ import annotations

import math

WARM_UP_SHARE = 0.1  # of all steps, while the learning rate rises


def warm_up_then_cosine(step: int, total_steps: int, peak: float) -> float:
    """For the step that comes after `step` steps: a linear rise, then half a cosine down to zero."""
    rise = min(1.0, (step + 1) / (WARM_UP_SHARE * total_steps))
    return peak * rise * (0.5 + 0.5 * math.cos(math.pi * step / total_steps))
