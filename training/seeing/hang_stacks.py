"""Leaves the stacks of a rank that makes no progress, so that a hang says where it hangs."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

AFTER_S = 30.0  # half of what a collective may take (training/collectives.py): the stacks are there before it gives up
ARMED_EVERY_S = 1.0


def stacks_path(launch_dir: Path, rank: int) -> Path:
    """Where a rank's stacks are written; an empty or missing file says that it never hung."""
    return launch_dir / f"stacks-rank{rank}.txt"


class HangStacks:
    """While open: when nobody said `alive` for `after_s`, the stacks of all threads are appended to the rank's file.

    The interpreter's own watchdog does it, a thread that needs no lock of the interpreter's, so it speaks as well when
    native code holds that lock.
    """

    def __init__(self, launch_dir: Path, rank: int, after_s: float = AFTER_S) -> None:
        self._path = stacks_path(launch_dir, rank)
        self._after_s = after_s
        self._armed_at = float("-inf")

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a")
        self.alive()
        return self

    def alive(self) -> None:
        """Say that the rank makes progress; cheap enough for each step."""
        now = time.monotonic()
        if now - self._armed_at >= min(ARMED_EVERY_S, self._after_s / 2):
            # Arming starts a thread (some 50 us), which is why it isn't done each time.
            faulthandler.dump_traceback_later(self._after_s, file=self._file)
            self._armed_at = now

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._file.close()
        if not self._path.stat().st_size:
            self._path.unlink()


def flight_recorder_environment(launch_dir: Path, env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What makes NCCL's watchdog leave torch's record of the last collectives when one times out; set before joining.

    torch reads it when a process group is made (torch 2.13, FlightRecorder.hpp, ProcessGroupNCCL.hpp). `python -m
    torch.distributed.flight_recorder.fr_trace` reads the files. What `env` sets already stays. Gloo keeps no record.
    """
    wanted = {
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": str(launch_dir / "flight-recorder-rank"),
    }
    return {name: value for name, value in wanted.items() if name not in env}
