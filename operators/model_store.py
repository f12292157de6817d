"""Keeps registered models apart from run folders, which may be pruned, and finds a model in either."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

MANIFEST = "manifest.json"  # of an exported model; the trainer writes it last


def find_model(trained: Path, store: Path, digest: str) -> Path | None:
    """Where a model lies now: where it was trained, else its copy in the store; None if both are gone."""
    return next((folder for folder in (trained, store / digest) if (folder / MANIFEST).is_file()), None)


def keep_model(source: str | Path, store: Path, digest: str) -> Path:
    """Copy an exported model into the store under its digest, whole or not at all; a model that is there stays."""
    kept = store / digest
    if kept.is_dir():
        return kept
    store.mkdir(parents=True, exist_ok=True)
    copy = Path(tempfile.mkdtemp(prefix=f".{digest[:12]}-", dir=store))
    try:
        shutil.copytree(source, copy, dirs_exist_ok=True)
        copy.chmod(0o755)
        copy.rename(kept)  # refuses a folder that another task has put there meanwhile
    except OSError:
        shutil.rmtree(copy, ignore_errors=True)
        if not kept.is_dir():
            raise
    return kept
