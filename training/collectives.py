"""The process group, and what a collective's failure means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from training.exit_codes import PeerLost
from training.world import World

# After a rank was killed, gloo's constructor was once seen to wait for eleven minutes with torch's default of thirty.
# A minute is many times what ranks of one gang ever wait for each other, a checkpoint included.
TIMEOUT = timedelta(seconds=60)
SECONDS_BETWEEN_LOOKS = 0.02


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


def join(world: World) -> None:
    """Join the gang's ranks over gloo; a process that torchrun didn't start is a gang of one and joins nothing.

    The group is left to the end of the process: gloo's destructor joins its threads while it holds the interpreter's
    lock, which these may be waiting for to let go of a tensor. Seen to hang for good (torch 2.13).

    Raises:
        PeerLost: not all ranks came in time.
    """
    if world.is_under_torchrun:
        with peers():
            dist.init_process_group("gloo", timeout=TIMEOUT)


def replicated(model: nn.Module) -> nn.Module:
    """The model as every rank trains it, with gradients averaged over the gang."""
    if not dist.is_initialized():
        return model
    with peers():
        return DistributedDataParallel(model)


def from_first_rank(value: Any) -> Any:
    """What rank 0 gave, on every rank."""
    box = [value]
    if dist.is_initialized():
        with peers():
            dist.broadcast_object_list(box, src=0)
    return box[0]


def from_every_rank(value: Any) -> list[Any]:
    """What each rank gave, by rank, on every rank."""
    if not dist.is_initialized():
        return [value]
    values = [None] * dist.get_world_size()
    with peers():
        dist.all_gather_object(values, value)
    return values


def each_works(work: Callable[[], Any] | None, alive: Callable[[], None]) -> Any:
    """What this rank's `work` returns, once all ranks are done with theirs, however long that takes.

    Ranks hear each other meanwhile, as a single collective gives up after a minute. `alive` is called now and then.
    """
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(work) if work is not None else None
        while add_up(doing is None or doing.done())[0] < ranks:
            alive()
            if doing is not None:
                wait([doing], SECONDS_BETWEEN_LOOKS)
    return doing.result() if doing is not None else None


def worked_out_by_first_rank(work: Callable[[], Any] | None, alive: Callable[[], None]) -> Any:
    """What rank 0's `work` returns, on every rank, however long it takes; None on the others."""
    return from_first_rank(each_works(work, alive))


def meet() -> None:
    """Wait until every rank is here."""
    if dist.is_initialized():
        with peers():
            dist.barrier()


def add_up(*numbers: float) -> list[float]:
    """The sums over all ranks, in float64."""
    return Sums(*numbers).read()


class Sums:
    """Sums over all ranks, in float64, that are on their way while other work goes on."""

    def __init__(self, *numbers: float) -> None:
        """Send this rank's numbers; every rank does so at the same place among its collectives."""
        self._sums = torch.tensor(numbers, dtype=torch.float64)
        self._work = None
        if dist.is_initialized():
            with peers():
                self._work = dist.all_reduce(self._sums, async_op=True)

    def read(self) -> list[float]:
        """Wait for them.

        Raises:
            PeerLost: another rank did not send its numbers.
        """
        if self._work is not None:
            with peers():
                self._work.wait()
        return [float(number) for number in self._sums]
