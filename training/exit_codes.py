"""The exit codes of the training-process contract (version 1), and the errors that end a process with each."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What a rank's exit code means; see docs/contracts.md."""

    DONE = 0
    BAD_SPEC = 64
    BAD_DATA = 65
    PROGRAM_ERROR = 70
    INTERRUPTED = 75


class TrainingEnd(Exception):
    """An end that the process knows the meaning of; `exit_code` is what it exits with."""

    exit_code: ClassVar[ExitCode] = ExitCode.PROGRAM_ERROR


class BadSpec(TrainingEnd):
    """What was asked for cannot be: the author's to change."""

    exit_code = ExitCode.BAD_SPEC


class BadData(TrainingEnd):
    """An input, or every checkpoint, is not what it should be."""

    exit_code = ExitCode.BAD_DATA


class Interrupted(TrainingEnd):
    """Stopped on request; a checkpoint of the last step is committed."""

    exit_code = ExitCode.INTERRUPTED


class Superseded(TrainingEnd):
    """A newer attempt has claimed the run folder; nothing was committed after that was seen."""

    exit_code = ExitCode.INTERRUPTED


class PeerLost(TrainingEnd):
    """Another rank went away in the middle of a collective; its own end says why, this one only follows from it."""
