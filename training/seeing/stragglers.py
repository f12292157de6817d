"""Which rank makes the others wait."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch.distributed as dist

from training.collectives import peers


def straggler_scores(seconds: Sequence[float]) -> list[float]:
    """Each rank's own working time over the median of all: 1 is like the others, 2 takes twice as long.

    Args:
        seconds: Per rank, the time of work in which it waits for nobody (`Reading.own_seconds_since`). Whole steps
            take equally long on all ranks, since these wait for each other, and so do not tell.
    """
    middle = statistics.median(seconds)
    return [round(value / middle, 3) if middle > 0 else 1.0 for value in seconds]


def gather_seconds(own: float) -> list[float]:
    """Every rank's number, on every rank; a collective.

    Raises:
        PeerLost: a rank went away.
    """
    if not dist.is_initialized():
        return [own]
    everyone: list[float] = [0.0] * dist.get_world_size()
    with peers():
        dist.all_gather_object(everyone, own)
    return everyone
