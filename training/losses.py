"""The loss of every step of a run, as one page to follow and as one digest to compare."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path

from training.files import write_atomically

NAME = "losses.jsonl"


def digest(losses: Sequence[float]) -> str:
    """The sha256 over the losses as little-endian float64: equal only if each is equal in every bit."""
    return sha256(struct.pack(f"<{len(losses)}d", *losses)).hexdigest()


class LossPage(AbstractContextManager["LossPage"]):
    """Begins the page with the losses of the checkpoint, as what came after it is made again, and appends to it.

    The page is replaced, not cut: an attempt that was superseded, and does not know yet, appends to the old one.
    """

    def __init__(self, run_dir: Path, losses: Sequence[float]) -> None:
        lines = [_line(step, loss) for step, loss in enumerate(losses, start=1)]
        write_atomically(run_dir / NAME, "".join(lines).encode())
        self._file = (run_dir / NAME).open("a", buffering=1)

    def append(self, step: int, loss: float) -> None:
        """Add the loss of one more step."""
        self._file.write(_line(step, loss))

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _line(step: int, loss: float) -> str:
    return f'{{"step": {step}, "loss": {loss!r}}}\n'
