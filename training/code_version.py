"""The version of the training code: what its sources say."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def code_version() -> str:
    """The sha256 over the names and contents of this package's sources."""
    root = Path(__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(f"{path.relative_to(root).as_posix()}\0".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
