"""What one rank adds to a checkpoint: its files, hashed while they are written, and a page that lists them, last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event

from training import files
from training.checkpoint_manifest import CommittedFile
from training.exit_codes import TrainingEnd

PIECE = 8 << 20  # bytes between two looks at whether to give up


class CheckpointNotWritten(TrainingEnd):
    """A checkpoint could not be written; nothing of it is left, and the one before stays."""


class GivenUp(Exception):
    """Writing was called off."""


def write_part(
    folder: Path, page: str, contents: Mapping[str, memoryview], helper: Executor, is_given_up: Event
) -> None:
    """Write this rank's files by name, flush them to disk, then `page`. `helper` hashes at the same time.

    Raises:
        CheckpointNotWritten: the disk would not have it.
        GivenUp: `is_given_up` was set.
    """
    path = folder
    try:
        listed = []
        for name, content in contents.items():
            path = folder / name
            digest = helper.submit(_sha256_of, content, is_given_up)
            with files.create(path) as file:
                for piece in _pieces(content, is_given_up):
                    files.write_out(file, piece)
            listed.append(CommittedFile(name, len(content), digest.result()))
        path = folder / page
        files.write_json(path, [asdict(file) for file in listed], durable=False)  # the manifest will say it again
    except OSError as error:
        remove_part(folder, page, contents)
        size = sum(map(len, contents.values()))
        raise CheckpointNotWritten(
            f"checkpoint {folder}: {path.name} can't be written: {error.strerror}. This rank's part takes "
            f"{size:,} bytes. Nothing of it is left; the checkpoint before stays. Make room, or let the run folder be "
            "written to, and start again."
        ) from error
    except GivenUp:
        remove_part(folder, page, contents)
        raise


def read_part(folder: Path, page: str) -> list[CommittedFile]:
    """What a rank says it has written.

    Raises:
        CheckpointNotWritten: its page can't be read.
    """
    try:
        return [CommittedFile(**file) for file in json.loads((folder / page).read_bytes())]
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointNotWritten(f"checkpoint {folder}: {page} of a rank can't be read: {error}.") from error


def remove_part(folder: Path, page: str, contents: Mapping[str, memoryview]) -> None:
    """Take back what was written, as far as that is possible, and the folder once it is empty."""
    for name in (page, *contents):
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)
    if not files.is_remote(folder):
        with suppress(OSError):
            folder.rmdir()


def _sha256_of(content: memoryview, is_given_up: Event) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(content, is_given_up):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(content: memoryview, is_given_up: Event) -> Iterator[memoryview]:
    for start in range(0, len(content), PIECE):
        if is_given_up.is_set():
            raise GivenUp
        yield content[start : start + PIECE]
