from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from training.exit_codes import BadData
from training.partitions import refer, verify
from training.recipes.flights_spec import Partition


def edit_manifest(manifest: str, **changes: Any) -> None:
    path = Path(manifest)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_partition_verifies_as_it_was_written(own_days: list[Partition]) -> None:
    verified = verify(own_days[0])
    assert (verified.date, verified.rows, len(verified.files)) == (date(2013, 1, 1), 200, 1)


def test_the_digest_is_the_pipelines_own(own_days: list[Partition]) -> None:
    pipelines = pytest.importorskip("data_pipelines.manifest")
    written = json.loads(Path(own_days[0].manifest).read_text())
    files = tuple(pipelines.DataFile(**file) for file in written["files"])
    theirs = pipelines.Manifest("flights", "2013-01-01", files, written["columns"], (), "c")
    assert theirs.digest == own_days[0].digest


def test_the_digest_stays_when_only_time_and_provenance_differ(own_days: list[Partition]) -> None:
    edit_manifest(own_days[0].manifest, created_at="later", code_version="other")
    assert refer(Path(own_days[0].manifest)) == own_days[0]


def test_a_file_is_named_when_it_is_missing(own_days: list[Partition]) -> None:
    path = verify(own_days[1]).files[0]
    path.unlink()
    with pytest.raises(BadData, match=f"2013-01-02: file {path} is missing; expected [0-9]+ bytes"):
        verify(own_days[1])


@pytest.mark.parametrize(("cut", "word"), [(1, "bytes; expected"), (0, "has sha256")])
def test_a_file_is_named_when_its_bytes_are_others(own_days: list[Partition], cut: int, word: str) -> None:
    path = verify(own_days[1]).files[0]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 1 - cut] + b"?")
    with pytest.raises(BadData, match=word) as caught:
        verify(own_days[1])
    assert str(path) in str(caught.value)


def test_a_partition_built_anew_is_not_the_one_that_was_asked_for(own_days: list[Partition]) -> None:
    edit_manifest(own_days[0].manifest, columns={"late": "int8"})
    with pytest.raises(BadData, match="were built anew since"):
        verify(own_days[0])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"schema_version": 2}, "schema_version 2"),
        ({"partition": "2013-01-09"}, "is of '2013-01-09'"),
        ({"files": 3}, "a field is missing or of a wrong kind"),
    ],
)
def test_a_manifest_is_refused_when_it_is_of_another_kind(
    own_days: list[Partition], changes: dict[str, Any], word: str
) -> None:
    edit_manifest(own_days[0].manifest, **changes)
    with pytest.raises(BadData, match=word):
        verify(own_days[0])


def test_a_manifest_is_named_when_it_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"manifest /.*/manifest.json is missing"):
        refer(tmp_path / "manifest.json")
