"""A disk that is full or read-only: told at once and in words, nothing half there, and the checkpoint before stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.training.checkpoints.faulty_disk import FaultyDisk, no_space
from tests.training.checkpoints.saving import a_checkpointer, a_state, restored, save
from tests.training.checkpoints.states import differing, whole
from training.checkpoint_manifest import committed, folder_of
from training.checkpoints.checkpointer import Checkpointer
from training.checkpoints.parts import CheckpointNotWritten


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """How many bytes were written in all by the end of shard, index, page and manifest."""
    disk, folder = FaultyDisk(None, no_space), tmp_path_factory.mktemp("measured")
    state = a_state(folder, 2)
    with pytest.MonkeyPatch.context() as patch, a_checkpointer(folder) as checkpointer:
        disk.install(patch)
        checkpointer.begin(state)
        checkpointer.drain()
    return [end for _, end in disk.ends]


@pytest.mark.parametrize("file", range(4), ids=["shard", "index", "page", "manifest"])
def test_the_save_fails_in_words_and_leaves_nothing_when_the_disk_is_full(
    file: int, ends: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = a_state(tmp_path, 1)
    save(tmp_path, before)
    state = a_state(tmp_path, 2)
    with a_checkpointer(tmp_path) as checkpointer, monkeypatch.context() as patch:
        FaultyDisk(ends[file] - 10, no_space).install(patch)
        checkpointer.begin(state)
        with pytest.raises(CheckpointNotWritten, match=r"No space left on device.*Make room") as caught:
            checkpointer.drain()
    assert caught.value.exit_code == 70
    assert not folder_of(tmp_path, 2).exists()
    assert committed(tmp_path) == [folder_of(tmp_path, 1)]
    assert differing(whole(restored(tmp_path)), whole(before)) == set()
    save(tmp_path, state)  # once there is room
    assert differing(whole(restored(tmp_path)), whole(state)) == set()


def test_the_save_fails_in_words_when_the_folder_can_not_be_made(tmp_path: Path) -> None:
    state = a_state(tmp_path, 1)
    with a_checkpointer(tmp_path) as checkpointer:
        (tmp_path / "checkpoints").write_text("no folder")
        checkpointer.begin(state)
        with pytest.raises(CheckpointNotWritten, match="the folder can't be made"):
            checkpointer.drain()


def test_the_run_ends_in_words_when_the_disk_fills_up_behind_its_steps(tmp_path: Path) -> None:
    state = a_state(tmp_path, 1)
    with a_checkpointer(tmp_path) as checkpointer, pytest.MonkeyPatch.context() as patch:
        FaultyDisk(1000, no_space).install(patch)
        checkpointer.begin(state)
        with pytest.raises(CheckpointNotWritten, match=r"rank-0.safetensors can't be written"):
            make_steps(checkpointer)


def make_steps(checkpointer: Checkpointer) -> None:
    for _ in range(10_000):
        checkpointer.hear(checkpointer.progress())
        time.sleep(0.001)
