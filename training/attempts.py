"""Claims of a run folder: the newest one may commit, every other one must stop."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from training.exit_codes import Superseded
from training.files import sync_folder

FOLDER = "attempts"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one attempt to write into a run folder, for as long as no later one is made."""

    run_dir: Path
    attempt: int

    def is_superseded(self) -> bool:
        """Whether a later attempt has claimed the folder."""
        return newest(self.run_dir) > self.attempt

    def check(self) -> None:
        """Go on only as the newest attempt.

        Raises:
            Superseded: a later attempt has claimed the folder.
        """
        last = newest(self.run_dir)
        if last > self.attempt:
            raise Superseded(
                f"superseded: attempt {last} has claimed {self.run_dir}; this is attempt {self.attempt}, which must "
                "not commit any more."
            )


def newest(run_dir: Path) -> int:
    """The highest attempt that has claimed the folder; 0 if none has."""
    folder = run_dir / FOLDER
    if not folder.is_dir():
        return 0
    return max((int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()), default=0)


def claim(run_dir: Path, launch: int) -> Claim:
    """Claim the folder for a new attempt, numbered one above the highest there is.

    Creating the file exclusively is the whole lock: of two that try the same number, one gets it, the other the next.
    """
    folder = run_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        attempt = newest(run_dir) + 1
        try:
            handle = os.open(folder / str(attempt), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            continue
        content = {"attempt": attempt, "launch": launch, "pid": os.getpid(), "host": socket.gethostname()}
        content["started_at"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(content) + "\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        return Claim(run_dir, attempt)
