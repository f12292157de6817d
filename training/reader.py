"""The order in which samples are read: a function of the seed alone, whatever the number of workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from training.exit_codes import BadData


def epoch_order(seed: int, epoch: int, sample_count: int) -> npt.NDArray[np.int64]:
    """The permutation of the samples in one epoch."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(sample_count)


class Reader:
    """Reads epoch after epoch as one endless stream, in global batches of which each rank takes a slice.

    A batch may span two epochs, so no sample is dropped at an epoch's end. `position` counts samples over all ranks.
    Slices are equal, or differ by one sample where the ranks do not divide the batch. `weight` is what this rank's mean
    over its slice counts for where the ranks' means are averaged as equals, so that the average is the batch's mean.
    """

    def __init__(self, sample_count: int, global_batch_size: int, seed: int, rank: int, world_size: int) -> None:
        self.position = 0
        self._sample_count = sample_count
        self._batch_size = global_batch_size
        self._seed = seed
        self._share = slice(rank * global_batch_size // world_size, (rank + 1) * global_batch_size // world_size)
        self.weight = (self._share.stop - self._share.start) * world_size / global_batch_size
        self._epoch = -1
        self._order: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def next_batch(self) -> npt.NDArray[np.int64]:
        """This rank's share of the next global batch: indices of samples, int64 [n], n within one of
        global_batch_size / world_size.
        """
        pieces, wanted = [], self._batch_size
        while wanted:
            epoch, offset = divmod(self.position, self._sample_count)
            piece = self._order_of(epoch)[offset : offset + wanted]
            pieces.append(piece)
            self.position += len(piece)
            wanted -= len(piece)
        return np.concatenate(pieces)[self._share]

    def state(self) -> dict[str, Any]:
        """All that another reader needs to go on with the very next sample."""
        return {"position": self.position, "sample_count": self._sample_count, "seed": self._seed}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken.

        Raises:
            BadData: it was taken over other samples or with another seed.
        """
        if (state["sample_count"], state["seed"]) != (self._sample_count, self._seed):
            raise BadData(
                f"checkpoint: its reader went over {state['sample_count']} samples with seed {state['seed']}; this run "
                f"has {self._sample_count} with seed {self._seed}. Submit a new run; it starts from scratch."
            )
        self.position = int(state["position"])

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch != self._epoch:
            self._order, self._epoch = epoch_order(self._seed, epoch, self._sample_count), epoch
        return self._order
