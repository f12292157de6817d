"""Files that are whole or absent, and their digests.

A path may be remote: universal_pathlib's, over object storage, where what is written appears whole once it is closed,
and there are neither folders to make nor anything to flush.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast


def sha256_of(path: Path) -> str:
    """The hexadecimal digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical(content: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal content gives equal bytes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(content: Any) -> str:
    """The sha256 of the canonical JSON of `content`."""
    return hashlib.sha256(canonical(content)).hexdigest()


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file that a reader sees whole or not at all.

    `durable` also makes it outlast a power cut; a heartbeat, soon followed by the next, does without.
    """
    if is_remote(path):
        with create(path) as file:
            write_out(file, content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb", buffering=0) as file:
            write_out(file, content)
            if durable:
                flush(file)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_json(path: Path, content: Any, *, durable: bool = True) -> None:
    """Write readable JSON atomically."""
    write_atomically(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode(), durable=durable)


def write_out(file: IO[bytes], content: bytes | memoryview) -> None:
    """Write all of it to an unbuffered file, which may take less at a time."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def flush(file: IO[bytes]) -> None:
    """Flush an open file's bytes to disk."""
    os.fsync(file.fileno())


def is_remote(path: Path) -> bool:
    """Whether the path lies in object storage."""
    return not isinstance(path, Path)


@contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """A new unbuffered file to write; its bytes are on disk afterwards."""
    if is_remote(path):
        with path.open("wb") as file:
            yield file
        return
    with path.open("wb", buffering=0) as file:
        yield file
        flush(file)


def make_folder(path: Path) -> None:
    """Make a folder and those that it lies in, as far as they are not there."""
    if not is_remote(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it, as far as that is possible."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        cast(Any, path).fs.rm(cast(Any, path).path, recursive=True)


def sync(path: Path) -> None:
    """Flush a file's bytes to disk."""
    if is_remote(path):
        return
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to disk, without which a rename in it may be forgotten."""
    if is_remote(path):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
