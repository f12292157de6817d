"""Files that are there whole or not at all, also after a crash."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

CHUNK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def flush_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unfinished(path: Path, pid: int | str = "*") -> Path:
    """The name under which `path` is written before it is whole; with "*", the pattern of such names."""
    return path.with_name(f".{path.name}.{pid}")


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file that readers see whole or not at all; replaces one that is there."""
    temporary = unfinished(path, os.getpid())
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_to_disk(path.parent)
