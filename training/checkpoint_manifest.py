"""What makes a folder of files a checkpoint: a commit manifest, written last, that every file agrees with."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from training.attempts import Claim
from training.exit_codes import BadData
from training.files import is_remote, remove_folder, sha256_of, sync, sync_folder, write_json

SCHEMA = 1
FOLDER = "checkpoints"
COMMIT = "commit.json"


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file of a checkpoint; `path` is relative to the checkpoint's folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Commit:
    """What `commit.json` says. `spec_digest` is that of the RunSpec the state belongs to."""

    step: int
    samples: int
    world_size: int
    layout: str
    files: tuple[CommittedFile, ...]
    reader_state: dict[str, Any]
    gang_id: str
    submission: int
    attempt: int
    created_at: str
    spec_digest: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Found:
    """The newest checkpoint that verifies, and why each newer one was passed over."""

    folder: Path
    commit: Commit
    passed_over: tuple[str, ...] = field(default=())


class Torn(Exception):
    """A commit manifest and the files beside it disagree; the message says which and how."""


def folder_of(run_dir: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run_dir / FOLDER / f"step-{step:08d}"


def describe_file(folder: Path, name: str) -> CommittedFile:
    """Flush a file that was just written and describe it for the manifest."""
    path = folder / name
    sync(path)
    return CommittedFile(name, path.stat().st_size, sha256_of(path))


def commit(claim: Claim, folder: Path, content: Commit) -> None:
    """Make the folder a checkpoint. All ranks' files must lie there already.

    Raises:
        Superseded: a newer attempt has claimed the run folder; nothing was committed.
    """
    sync_folder(folder)
    claim.check()
    write_json(folder / COMMIT, asdict(content))
    sync_folder(folder.parent)


def read_commit(folder: Path) -> Commit:
    """The folder's manifest, unverified.

    Raises:
        Torn: it can't be read.
        BadData: it is of a newer version.
    """
    path = folder / COMMIT
    try:
        content = json.loads(path.read_bytes())
        if int(content["schema"]) > SCHEMA:
            raise BadData(
                f"checkpoint {path}: schema {content['schema']} is newer than {SCHEMA}, the newest that this trainer "
                "knows (training/checkpoint_manifest.py). Resume with a newer trainer."
            )
        known = {field.name: content[field.name] for field in fields(Commit) if field.name in content}
        known["files"] = tuple(CommittedFile(file["path"], file["bytes"], file["sha256"]) for file in content["files"])
        return Commit(**known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Torn(f"{path}: can't be read: {error!r}") from error


def verify(folder: Path) -> Commit:
    """Read the manifest and hold every file against it.

    Raises:
        Torn: a file is missing or differs in size or digest, or the manifest itself can't be read.
    """
    content = read_commit(folder)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for torn in pool.map(lambda file: _differs(folder / file.path, file), content.files):
            if torn:
                raise Torn(torn)
    return content


def _differs(path: Path, file: CommittedFile) -> str | None:
    if not path.is_file():
        return f"{path}: missing"
    if path.stat().st_size != file.bytes:
        return f"{path}: {path.stat().st_size} bytes, {file.bytes} committed"
    if sha256_of(path) != file.sha256:
        return f"{path}: sha256 differs from the committed one"
    return None


def committed(run_dir: Path) -> list[Path]:
    """Folders with a commit manifest, newest step first, whether or not they verify."""
    if is_remote(run_dir):
        cast(Any, run_dir).fs.invalidate_cache()  # others write there
    folders = [path for path in (run_dir / FOLDER).glob("step-*") if re.fullmatch(r"step-\d{8}", path.name)]
    return sorted((folder for folder in folders if (folder / COMMIT).exists()), reverse=True)


def newest_step(run_dir: Path) -> int | None:
    """The step of the newest folder with a commit manifest, whether or not it verifies; None if there is none."""
    folders = committed(run_dir)
    return int(folders[0].name.removeprefix("step-")) if folders else None


def find(run_dirs: Iterable[Path]) -> Found | None:
    """The newest verified checkpoint of the first run folder that has any commit; None if none has.

    Raises:
        BadData: a folder has commits and none verifies. Starting anew would silently throw work away.
    """
    for run_dir in run_dirs:
        passed_over: list[str] = []
        for folder in committed(run_dir):
            try:
                return Found(folder, verify(folder), tuple(passed_over))
            except Torn as torn:
                passed_over.append(str(torn))
        if passed_over:
            raise BadData(
                f"run folder {run_dir}: none of {len(passed_over)} committed checkpoints verifies "
                f"({'; '.join(passed_over)}). To begin from scratch, remove {run_dir / FOLDER} and submit again; to "
                "resume, bring the files back."
            )
    return None


def prune(run_dir: Path, keep: int, step: int) -> None:
    """Remove all but the newest `keep` committed checkpoints up to `step`, and what never got committed before them.

    `step` is that of the one just committed: what lies beyond it was passed over as torn, and must not count.
    """
    newest = folder_of(run_dir, step)
    kept = [folder for folder in committed(run_dir) if folder <= newest][:keep]
    if not kept:
        return
    for folder in sorted((run_dir / FOLDER).glob("step-*")):
        if folder < kept[-1] or (folder < kept[0] and folder not in kept):
            (folder / COMMIT).unlink(missing_ok=True)  # first: no manifest may outlive its files
            remove_folder(folder)
