"""A disk that fails at a given byte of all that a process writes: full from there on, or the process is killed."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from training import files


def kill_self() -> None:
    """An end that nothing can catch."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_space() -> None:
    """What a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass
class FaultyDisk:
    """Takes `room` bytes, over all files, and fails with the next; without, it only counts. `ends` holds how many bytes
    were written by the end of each write, with the file's name.
    """

    room: int | None
    fail: Callable[[], None]
    written: int = 0
    ends: list[tuple[str, int]] = field(default_factory=list)

    def write_out(self, file: IO[bytes], content: bytes | memoryview) -> None:
        """In place of training.files.write_out."""
        left = memoryview(content)
        while left:
            fits = len(left) if self.room is None else min(len(left), self.room - self.written)
            done = file.write(left[:fits]) if fits else 0
            self.written, left = self.written + done, left[done:]
            if left and self.written == self.room:
                self.fail()
        self.ends.append((Path(file.name).name, self.written))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let all files of this process lie on it."""
        patch.setattr(files, "write_out", self.write_out)
