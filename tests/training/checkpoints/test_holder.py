"""A holder serves who knows its token, forgets what is old, and never stays behind for good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import AuthenticationError
from pathlib import Path

import pytest

from tests.training.torchrun import wait_until_gone
from training.checkpoints import holder_client
from training.checkpoints.holder import ADDRESS
from training.checkpoints.holder_client import HolderAddress, HolderLine, find_or_start

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(holder_client, "IDLE_S", 1.0)
    folder = tmp_path / "holder"
    yield folder
    (folder / ADDRESS).unlink(missing_ok=True)


def hold(line: HolderLine, step: int) -> None:
    line.hold(step, "shard", memoryview(b"weights of %d" % step))


def test_it_is_found_again_and_ends_when_nobody_is_connected_any_more(folder: Path) -> None:
    address = find_or_start(folder)
    line = HolderLine(address)
    assert find_or_start(folder) == address
    hold(line, 1)
    line.commit(1, {"step": 1})
    line.close()
    again = HolderLine(address)
    assert again.fetch(1, "shard") == b"weights of 1"
    again.close()
    wait_until_gone(address.pid)
    assert find_or_start(folder) != address


def test_nobody_is_let_in_when_the_token_is_another(folder: Path) -> None:
    address = find_or_start(folder)
    with pytest.raises(AuthenticationError):
        HolderLine(replace(address, token="00" * 32))
    assert (folder / ADDRESS).stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0


def test_only_the_newest_committed_checkpoint_and_the_one_in_the_making_are_kept(folder: Path) -> None:
    line = HolderLine(find_or_start(folder))
    hold(line, 1)
    line.commit(1, {"step": 1})
    hold(line, 2)  # is never committed
    hold(line, 3)
    assert line.committed() == [{"commit": {"step": 1}, "files": ["shard"]}]
    line.commit(3, {"step": 3})
    assert line.committed() == [{"commit": {"step": 3}, "files": ["shard"]}]
    line.end()
    line.close()


def test_it_ends_when_its_folder_is_gone(folder: Path) -> None:
    address: HolderAddress = find_or_start(folder)
    line = HolderLine(address)  # stays connected
    (folder / ADDRESS).unlink()
    wait_until_gone(address.pid)
    line.close()
