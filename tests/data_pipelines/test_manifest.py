from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data_pipelines.durable_files import sha256_of
from data_pipelines.manifest import (
    DataFile,
    InputFile,
    Manifest,
    ManifestError,
    NewerManifest,
    code_version_of,
    inputs_digest,
    manifest_path,
)

INPUTS = (InputFile("raw/a.csv", 3, "a" * 64), InputFile("raw/b.csv", 4, "b" * 64))


def a_manifest(folder: Path, content: bytes = b"rows") -> Manifest:
    data = folder / "v-0123456789ab" / "part-00000.parquet"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(content)
    return Manifest(
        dataset="flights",
        partition="2013-01-10",
        files=(DataFile("v-0123456789ab/part-00000.parquet", len(content), sha256_of(data), 4),),
        columns={"date": "date32[day]", "late": "int8"},
        inputs=INPUTS,
        code_version="c" * 64,
        dropped={"cancelled": 2},
        notes=("no weather",),
    )


def test_a_manifest_reads_back_equal_when_it_was_written(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path)
    path = tmp_path / "manifest.json"
    manifest.write(path)
    assert Manifest.read(path) == manifest
    Manifest.read(path).verify(tmp_path)
    assert json.loads(path.read_text())["rows"] == 4
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_the_digest_is_of_what_a_reader_gets_when_time_and_provenance_differ(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path)
    assert replace(manifest, created_at="2001-01-01T00:00:00+00:00", inputs=(), notes=()).digest == manifest.digest
    assert replace(manifest, code_version="d" * 64, dropped={}).digest == manifest.digest
    assert replace(manifest, partition="2013-01-11").digest != manifest.digest
    assert replace(manifest, columns={"late": "int8", "date": "date32[day]"}).digest != manifest.digest
    assert a_manifest(tmp_path, b"other rows").digest != manifest.digest


def test_nothing_is_new_when_inputs_and_code_are_the_same(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path)
    assert manifest.is_made_from(reversed(INPUTS), "c" * 64)
    assert not manifest.is_made_from(INPUTS, "d" * 64)
    assert not manifest.is_made_from(INPUTS[:1], "c" * 64)
    assert inputs_digest([replace(INPUTS[0], sha256="e" * 64), INPUTS[1]]) != manifest.inputs_digest


def test_the_code_version_changes_when_a_source_does(tmp_path: Path) -> None:
    source = tmp_path / "flights.py"
    source.write_text("1")
    before = code_version_of([source])
    assert code_version_of([source]) == before
    source.write_text("2")
    assert code_version_of([source]) != before


def newer(found: dict[str, Any]) -> None:
    found["schema_version"] = 2


def by_hand(found: dict[str, Any]) -> None:
    found["files"][0]["rows"] = 5


def without_files(found: dict[str, Any]) -> None:
    del found["files"]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (newer, NewerManifest, "has schema version 2; this program reads up to 1"),
        (by_hand, ManifestError, "was changed by hand"),
        (without_files, ManifestError, "isn't one of schema version 1: KeyError: 'files'"),
    ],
    ids=["newer", "by-hand", "without-files"],
)
def test_a_manifest_is_refused_when_it_is_not_as_written(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], error: type[ManifestError], says: str
) -> None:
    path = tmp_path / "manifest.json"
    a_manifest(tmp_path).write(path)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(error, match=says):
        Manifest.read(path)


def test_a_missing_or_torn_manifest_is_named_when_it_is_read(tmp_path: Path) -> None:
    path = manifest_path(tmp_path, "flights", "2013-01-10")
    with pytest.raises(ManifestError, match=f"manifest {path} was asked for, but there is none"):
        Manifest.read(path)
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 1, "files": [')
    with pytest.raises(ManifestError, match=f"manifest {path} can't be read"):
        Manifest.read(path)


def test_a_file_is_named_when_it_is_missing_or_changed(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path)
    data = tmp_path / manifest.files[0].path
    data.write_bytes(b"ROWS")
    with pytest.raises(ManifestError, match=rf"file {data} .* was changed after it was written: expected 4 bytes"):
        manifest.verify(tmp_path)
    data.unlink()
    with pytest.raises(ManifestError, match=rf"file {data} .* can't be read: No such file"):
        manifest.verify(tmp_path)
