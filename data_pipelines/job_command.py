"""What the command lines of the data jobs share: plain log lines, exit codes, the result file."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from data_pipelines.durable_files import write_atomically
from data_pipelines.job_errors import PROGRAM_ERROR, JobError

log = logging.getLogger(__name__)


def run_job(job: Callable[[], int]) -> int:
    """Run a job and turn how it ends into an exit code; what went wrong is its last line."""
    _log_to_stdout()
    for asked in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asked, _end)
    try:
        return job()
    except JobError as error:
        log.error("%s: %s", type(error).__name__, error)
        return error.exit_code
    except OSError as error:
        log.error(
            "%s can't be written or read: %s. Check that the data folder is writable and has room, then run again; "
            "nothing half done was left visible.",
            error.filename or "a file",
            error.strerror or error,
        )
        return PROGRAM_ERROR
    except Exception:
        log.exception("the job broke with a program error; nothing half done was left visible")
        return PROGRAM_ERROR


def write_result(path: Path | None, result: Mapping[str, Any]) -> None:
    """Write the JSON result where the caller asked for it, if it did."""
    if path is not None:
        write_atomically(path.absolute(), (json.dumps(result, indent=1) + "\n").encode())


def _log_to_stdout() -> None:
    """Our own lines only: Great Expectations alone has hundreds more."""
    ours = logging.getLogger(__package__)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    ours.handlers = [handler]


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)  # so that Spark is stopped and its scratch folder removed
