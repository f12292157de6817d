"""What can end a data job, each with the exit code that tells the caller whether trying again can help."""

from __future__ import annotations

DONE, BAD_SPEC, BAD_DATA, PROGRAM_ERROR = 0, 64, 65, 70


class JobError(Exception):
    """A job can't go on; the message says what was asked, what was found, and what to do."""

    exit_code = PROGRAM_ERROR


class BadSpec(JobError):
    """What was asked can't be: a day that the source doesn't hold, an argument out of bounds."""

    exit_code = BAD_SPEC


class BadData(JobError):
    """A file is missing, damaged, or not of the shape that it must have."""

    exit_code = BAD_DATA
