"""A partition is what its manifest says: files with sizes and SHA-256, rows, schema, inputs, code. Written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from data_pipelines.durable_files import sha256_of, write_atomically
from data_pipelines.job_errors import BadData

SCHEMA_VERSION = 1
FILE_NAME = "manifest.json"


class ManifestError(BadData):
    """A manifest, or what it names, isn't there or isn't what it should be."""


class NewerManifest(ManifestError):
    """A newer program wrote the manifest; it must not be taken for a damaged one."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of the partition; `path` is relative to the manifest's folder."""

    path: str
    bytes: int
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file that the partition was made from; `path` is relative to the data folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is known of one partition.

    `columns` maps each name to its Arrow type ("double", "date32[day]"); `dropped` counts rows by reason; `notes` are
    sentences for people; `created_at` is ISO 8601 in UTC.
    """

    dataset: str
    partition: str
    files: tuple[DataFile, ...]
    columns: Mapping[str, str]
    inputs: tuple[InputFile, ...]
    code_version: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    created_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def inputs_digest(self) -> str:
        return inputs_digest(self.inputs)

    @property
    def digest(self) -> str:
        """SHA-256 of what a reader gets: dataset, partition, columns, and the bytes and order of the files.

        Neither time, place nor provenance counts: a rebuild that yields the same bytes is the same partition.
        """
        content = {
            "schema_version": SCHEMA_VERSION,
            "dataset": self.dataset,
            "partition": self.partition,
            "columns": list(self.columns.items()),
            "files": [[file.bytes, file.sha256, file.rows] for file in self.files],
        }
        return _digest(content)

    def is_made_from(self, inputs: Iterable[InputFile], code_version: str) -> bool:
        """Whether building again from these inputs with this code would bring nothing new."""
        return self.inputs_digest == inputs_digest(inputs) and self.code_version == code_version

    def as_json(self) -> dict[str, Any]:
        """The manifest file's content; `rows`, `inputs_digest` and `digest` are for readers without this class."""
        return {
            "schema_version": SCHEMA_VERSION,
            **asdict(self),
            "rows": self.rows,
            "inputs_digest": self.inputs_digest,
            "digest": self.digest,
        }

    def write(self, path: Path) -> None:
        """Make the partition visible; everything it names must be on disk already."""
        write_atomically(path, (json.dumps(self.as_json(), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """The manifest at `path`.

        Raises:
            ManifestError: there is none, or it is damaged (NewerManifest: a newer program wrote it).
        """
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise ManifestError(
                f"manifest {path} was asked for, but there is none: the partition was never built or was removed. "
                f"Build it (python -m data_pipelines.<dataset>)."
            ) from None
        except (OSError, ValueError) as error:
            raise ManifestError(f"manifest {path} can't be read: {error}. Remove it and build again.") from None
        version = found.get("schema_version") if isinstance(found, dict) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise NewerManifest(
                f"manifest {path} has schema version {version}; this program reads up to {SCHEMA_VERSION} "
                f"(data_pipelines/manifest.py). Update the program, or build the partition again into another folder."
            )
        try:
            manifest = cls._parse(found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ManifestError(
                f"manifest {path} isn't one of schema version {SCHEMA_VERSION}: {type(error).__name__}: {error}. "
                f"Remove it and build again."
            ) from None
        if found.get("digest") != manifest.digest or found.get("inputs_digest") != manifest.inputs_digest:
            raise ManifestError(
                f"manifest {path} was changed by hand: its digests don't fit its content. Remove it and build again."
            )
        return manifest

    @classmethod
    def _parse(cls, found: Mapping[str, Any]) -> Self:
        if found["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {found['schema_version']!r}")
        return cls(
            dataset=found["dataset"],
            partition=found["partition"],
            files=tuple(DataFile(**file) for file in found["files"]),
            columns=dict(found["columns"]),
            inputs=tuple(InputFile(**file) for file in found["inputs"]),
            code_version=found["code_version"],
            dropped=dict(found["dropped"]),
            notes=tuple(found["notes"]),
            created_at=found["created_at"],
        )

    def verify(self, folder: Path) -> None:
        """Check that every file is there with the size and SHA-256 that the manifest names.

        Args:
            folder: the manifest's folder.

        Raises:
            ManifestError: at the first file that isn't.
        """
        for file in self.files:
            path = folder / file.path
            try:
                found_bytes, found_sha256 = path.stat().st_size, sha256_of(path)
            except OSError as error:
                raise ManifestError(
                    f"file {path} of {self.dataset} {self.partition} can't be read: {error.strerror}. The manifest "
                    f"names it with {file.bytes} bytes. Remove {folder / FILE_NAME} and build the partition again."
                ) from None
            if (found_bytes, found_sha256) != (file.bytes, file.sha256):
                raise ManifestError(
                    f"file {path} of {self.dataset} {self.partition} was changed after it was written: expected "
                    f"{file.bytes} bytes, sha256 {file.sha256[:12]}; found {found_bytes} bytes, sha256 "
                    f"{found_sha256[:12]}. Remove {folder / FILE_NAME} and build the partition again."
                )


def partition_dir(data_dir: Path, dataset: str, partition: str) -> Path:
    """The folder of a day's manifest: `<data>/<dataset>/day=<partition>`."""
    return data_dir / dataset / f"day={partition}"


def manifest_path(data_dir: Path, dataset: str, partition: str) -> Path:
    """Where the manifest of a partition lies, whether it is there or not."""
    return partition_dir(data_dir, dataset, partition) / FILE_NAME


def inputs_digest(inputs: Iterable[InputFile]) -> str:
    """SHA-256 over the inputs' names and contents, in the order of their names."""
    return _digest(sorted((file.path, file.bytes, file.sha256) for file in inputs))


def code_version_of(sources: Iterable[Path]) -> str:
    """SHA-256 over the names and contents of source files."""
    return _digest(sorted((path.name, sha256_of(path)) for path in sources))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
