"""What torch's distributed checkpoint raises and warns of, as this project means it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from torch.distributed.checkpoint.api import CheckpointException

from training.collectives import peers


@contextmanager
def planned() -> Iterator[None]:
    """Let a save or load raise what went wrong, on every rank, and not that something did.

    Raises:
        PeerLost: another rank went away.
    """
    with warnings.catch_warnings(), peers():
        # A gang of one joins nothing, and torch tells so each time.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        try:
            yield
        except CheckpointException as error:  # no Exception, and so would pass by whoever handles those
            cause = next(iter(error.failures.values()))[0]
            raise cause from error
