"""At most one process works on a partition: a lock on a file, which dies with its holder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

CLAIMS = ".claims"


@contextmanager
def claimed(folder: Path, name: str, on_wait: Callable[[str], None] | None = None) -> Iterator[bool]:
    """Hold the claim `name` of a dataset's folder inside the `with`; yields whether it was got.

    Without `on_wait` it doesn't wait: a claim that another process holds yields False. With it, `on_wait` is told who
    holds the claim, and the claim is waited for. Claim files stay: removing one could give a claim to two.
    """
    claims = folder / CLAIMS
    claims.mkdir(parents=True, exist_ok=True)
    with (claims / f"{name}.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is None:
                yield False
                return
            file.seek(0)
            on_wait(_holder(file.read()))
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}))
        file.flush()
        yield True


@contextmanager
def claimed_all_free(folder: Path, names: list[str]) -> Iterator[list[str]]:
    """Hold the claims of those names that nobody else holds; yields these. Never waits."""
    with ExitStack() as stack:
        yield [name for name in names if stack.enter_context(claimed(folder, name))]


def _holder(written: str) -> str:
    try:
        found = json.loads(written)
        return f"process {found['pid']} on {found['host']} since {found['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process that has just started"
