"""Where a submission's run folder lies: a function of its key alone."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

LONGEST_NAME = 200  # bytes; file systems allow 255, and temporary files need a suffix


def safe_name(gang_id: str) -> str:
    """The gang id as one folder name: other characters as `=XX` (hex of the byte), so different ids stay different.

    A name that would be too long ends in a digest of the whole id instead.
    """
    name = re.sub(rb"[^A-Za-z0-9._+-]|^\.", lambda found: b"=%02X" % found[0][0], gang_id.encode()).decode()
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(gang_id.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_NAME - 20]}=={digest}"


def run_dir(runs_dir: Path, gang_id: str, submission: int) -> str:
    """The folder that all attempts of the submission share."""
    return str(runs_dir / safe_name(gang_id) / f"submission-{submission}")
