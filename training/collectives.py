"""The process group, and what a collective's failure means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from training.exit_codes import PeerLost
from training.world import World

# After a rank was killed, gloo's constructor was once seen to wait for eleven minutes with torch's default of thirty.
# A minute is many times what ranks of one gang ever wait for each other, a checkpoint included.
TIMEOUT = timedelta(seconds=60)


@contextmanager
def peers() -> Iterator[None]:
    """Names the loss of a peer what it is.

    Raises:
        PeerLost: a collective failed because another rank did not take part in it.
    """
    try:
        yield
    except dist.DistError as error:
        raise PeerLost(f"gloo: another rank went away: {error}") from error
    except RuntimeError as error:  # gloo raises it bare
        if "gloo" not in str(error) and "Connection" not in str(error):
            raise
        raise PeerLost(f"gloo: another rank went away: {error}") from error


@contextmanager
def process_group(world: World) -> Iterator[None]:
    """The gang's ranks, joined over gloo; a lone process joins itself, with no torchrun.

    Raises:
        PeerLost: not all ranks came in time.
    """
    with peers():
        if world.is_under_torchrun:
            dist.init_process_group("gloo", timeout=TIMEOUT)
        else:
            store = dist.HashStore()  # type: ignore[attr-defined]  # public, but missing from torch's own export list
            dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=TIMEOUT)
    try:
        yield
    except BaseException:
        if not world.is_under_torchrun:  # with a peer gone it could wait, and the process ends anyway
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def from_first_rank(value: Any) -> Any:
    """What rank 0 gave, on every rank."""
    box = [value]
    with peers():
        dist.broadcast_object_list(box, src=0)
    return box[0]


def meet() -> None:
    """Wait until every rank is here."""
    with peers():
        dist.barrier()


def add_up(*numbers: float) -> list[float]:
    """The sums over all ranks, in float64."""
    sums = torch.tensor(numbers, dtype=torch.float64)
    with peers():
        dist.all_reduce(sums)
    return [float(number) for number in sums]
