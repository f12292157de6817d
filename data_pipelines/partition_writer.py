"""Puts one partition on disk: data into a folder named by its content, the manifest last."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_pipelines.durable_files import flush_to_disk, sha256_of, unfinished
from data_pipelines.manifest import DataFile, InputFile, Manifest, manifest_path

UNFINISHED = ".building-"
PART = "part-00000.parquet"


def write_partition(
    data_dir: Path,
    dataset: str,
    partition: str,
    table: pa.Table,
    *,
    inputs: Sequence[InputFile],
    code_version: str,
    dropped: Mapping[str, int],
    notes: Sequence[str],
) -> Manifest:
    """Commit `table` as the partition's content; the caller holds the partition's claim.

    The data folder is named by its content (`v-<12 hex of the SHA-256>`), so a reader of the manifest that was there
    before keeps its files, and the same content lands in the same place with the same bytes.
    """
    path = manifest_path(data_dir, dataset, partition)
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{UNFINISHED}*"):  # the claim is ours: whoever began these is dead
        shutil.rmtree(leftover)
    for leftover in folder.glob(unfinished(path).name):
        leftover.unlink()
    building = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        building.chmod(0o755)
        part = building / PART
        # One row group, no page index, no pandas metadata: equal tables give equal bytes.
        pq.write_table(table, part, compression="zstd", row_group_size=max(table.num_rows, 1))
        flush_to_disk(part)
        sha256, size_bytes = sha256_of(part), part.stat().st_size
        version = folder / f"v-{sha256[:12]}"
        _place(building, version, sha256)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    flush_to_disk(folder)
    _die_if_asked(partition)
    manifest = Manifest(
        dataset=dataset,
        partition=partition,
        files=(DataFile(f"{version.name}/{PART}", size_bytes, sha256, table.num_rows),),
        columns={column.name: str(column.type) for column in table.schema},
        inputs=tuple(inputs),
        code_version=code_version,
        dropped=dict(dropped),
        notes=tuple(notes),
    )
    manifest.write(path)
    return manifest


def _place(building: Path, version: Path, sha256: str) -> None:
    """Move the finished folder to its name; one of that name with the same bytes stays as it is."""
    part = version / PART
    if version.is_dir():
        if part.is_file() and sha256_of(part) == sha256:
            return
        (building / PART).replace(part)  # damaged: repaired in place
        flush_to_disk(version)
        return
    flush_to_disk(building)
    building.rename(version)


def _die_if_asked(partition: str) -> None:
    """Fault injection: die as if by the kernel between the files and the manifest of one partition."""
    if os.environ.get("PHALANX_DATA_KILL_BEFORE_MANIFEST") == partition:
        os.kill(os.getpid(), 9)
