"""A finished model as a folder of files: weights, a card that says how to feed them, and a manifest, written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from training.exit_codes import BadData
from training.files import digest_of, sha256_of, sync, write_json

SCHEMA = 1
WEIGHTS, CARD, MANIFEST = "model.safetensors", "model.json", "manifest.json"


def write(folder: Path, card: dict[str, Any], weights: dict[str, Tensor]) -> str:
    """Write a model, its manifest last. Equal models give equal bytes, so writing it twice changes nothing.

    Returns:
        The model's digest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{WEIGHTS}.tmp"
    save_file({name: weight.contiguous() for name, weight in sorted(weights.items())}, temporary)
    sync(temporary)
    temporary.replace(folder / WEIGHTS)
    write_json(folder / CARD, card)
    files = [
        {"path": name, "bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in (CARD, WEIGHTS)
    ]
    digest = digest_of(files)
    write_json(folder / MANIFEST, {"schema": SCHEMA, "files": files, "digest": digest})
    return digest


def read(folder: Path, digest: str | None = None) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """A model's card, weights and digest, held against its manifest and, if given, the digest that it is known by.

    Raises:
        BadData: something is missing, changed, or of a newer version; names the file.
    """
    next_step = "Bring its files back, or name another model (phalanx models list)."
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        files, schema = manifest["files"], manifest["schema"]
        if schema > SCHEMA:
            raise BadData(
                f"model {folder}: schema {schema} is newer than {SCHEMA}, which this trainer reads. {next_step}"
            )
        found_digest = digest_of(files)
        if digest not in (None, found_digest):
            raise BadData(f"model {folder}: its digest is {found_digest}, asked for is {digest}. {next_step}")
        for file in files:
            found = sha256_of(folder / file["path"])
            if found != file["sha256"]:
                raise BadData(
                    f"model file {folder / file['path']}: sha256 {found}, expected {file['sha256']}. {next_step}"
                )
        return json.loads((folder / CARD).read_bytes()), load_file(folder / WEIGHTS), found_digest
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(f"model {folder}: can't be read: {error!r}. {next_step}") from error
