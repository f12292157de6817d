"""Partitions as their manifests describe them: which files, with which bytes, hold a day of data."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.exit_codes import BadData
from training.files import sha256_of
from training.recipes.flights_spec import Partition

SCHEMA_VERSION = 1
REBUILD = "Build the partition again (python -m data_pipelines.flights) and submit a new run."


@dataclass(frozen=True, slots=True)
class VerifiedPartition:
    """A partition whose every file has the bytes that the manifest names; `columns` maps names to Arrow types."""

    date: datetime.date
    files: tuple[Path, ...]
    rows: int
    columns: dict[str, str]


def refer(manifest: Path) -> Partition:
    """The partition whose manifest lies at `manifest`, as a RunSpec names it: with the digest of what it says now.

    Raises:
        BadData: there is no such manifest, or none that can be read.
    """
    content = _read(manifest)
    try:
        day = datetime.date.fromisoformat(content["partition"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadData(f"manifest {manifest}: partition = {content.get('partition')!r} is no day. {REBUILD}") from error
    return Partition(date=day, manifest=str(manifest), digest=content_digest(content, manifest))


def verify(partition: Partition) -> VerifiedPartition:
    """Hold the manifest against the run spec and every file against the manifest.

    Raises:
        BadData: something differs or is missing; names the file, what was expected and what was found.
    """
    path = Path(partition.manifest)
    content = _read(path)
    if content.get("partition") != partition.date.isoformat():
        raise BadData(
            f"partition {partition.date}: manifest {path} is of {content.get('partition')!r}. Name the one of the day."
        )
    found = content_digest(content, path)
    if found != partition.digest:
        raise BadData(
            f"partition {partition.date}: manifest {path} has digest {found}, the run spec was made for "
            f"{partition.digest}: the data were built anew since. Submit a new run to train on what is there now."
        )
    files = tuple(_verified(partition.date, path.parent, file) for file in content["files"])
    return VerifiedPartition(partition.date, files, sum(file["rows"] for file in content["files"]), content["columns"])


def content_digest(content: dict[str, Any], path: Path) -> str:
    """The digest of what a reader gets: dataset, partition, columns, and the bytes and order of the files.

    Where files lie and when they were made does not count; docs/contracts.md, "Partition manifest", has the formula.

    Raises:
        BadData: the manifest lacks a field.
    """
    try:
        counted = {
            "schema_version": content["schema_version"],
            "dataset": content["dataset"],
            "partition": content["partition"],
            "columns": list(content["columns"].items()),
            "files": [[file["bytes"], file["sha256"], file["rows"]] for file in content["files"]],
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise BadData(f"manifest {path}: a field is missing or of a wrong kind: {error!r}. {REBUILD}") from error
    return hashlib.sha256(json.dumps(counted, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise BadData(f"manifest {path} is missing. {REBUILD}") from error
    except (OSError, ValueError) as error:
        raise BadData(f"manifest {path} can't be read: {error}. {REBUILD}") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(content, dict) or version != SCHEMA_VERSION:
        raise BadData(
            f"manifest {path} has schema_version {version!r}; this trainer reads {SCHEMA_VERSION} "
            "(training/partitions.py). Build the partition with the matching version."
        )
    return content


def _verified(day: datetime.date, folder: Path, file: dict[str, Any]) -> Path:
    path = folder / str(file["path"])
    expected = f"expected {file['bytes']} bytes with sha256 {file['sha256']} (manifest.json beside it)"
    if not path.is_file():
        raise BadData(f"partition {day}: file {path} is missing; {expected}. {REBUILD}")
    size = path.stat().st_size
    if size != file["bytes"]:
        raise BadData(f"partition {day}: file {path} has {size} bytes; {expected}. {REBUILD}")
    digest = sha256_of(path)
    if digest != file["sha256"]:
        raise BadData(f"partition {day}: file {path} has sha256 {digest}; {expected}. {REBUILD}")
    return path
