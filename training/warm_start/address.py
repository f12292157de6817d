"""The folder and the socket of a warm parent."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOCKET, LOCK, LOG = "socket", "lock", "parent.log"
FOLDER_NAME_CHARACTERS = 16


def folder_of(warm_dir: Path, key: str) -> Path:
    """Where the parent with this key lives."""
    return warm_dir / key[:FOLDER_NAME_CHARACTERS]


def make_private(folder: Path) -> None:
    """Make the folder, for this user alone.

    Raises:
        PermissionError: it belongs to somebody else, or others may enter it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(
            f"folder {folder} of a warm parent: belongs to user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}; "
            f"it must be user {os.geteuid()}'s with mode 700, as whoever enters it runs programs. Remove it."
        )


@contextmanager
def short_path(folder: Path) -> Iterator[str]:
    """A path to the folder's socket that fits into a socket's address (108 bytes), however deep the folder lies."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


def new_socket() -> socket.socket:
    """A socket that keeps messages apart and passes descriptors."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
