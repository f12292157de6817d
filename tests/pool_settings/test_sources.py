"""Which file holds, and what happens when it changes under a running process."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pool_settings import Settings, SettingsInvalid, load
from pool_settings.sources import WatchedSettings, pools_file, watch

FIFO = "[policy]\norder = 'fifo'\n"
LAS = "[policy]\norder = 'las'\n"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_POOLS", raising=False)


def write(file: Path, text: str) -> None:
    """Write, and make sure that the file's time has moved."""
    file.write_text(text)
    found = file.stat()
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000))


def test_named_file_outranks_the_variable_which_outranks_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(tmp_path) == Settings()
    (tmp_path / "pools.toml").write_text(FIFO)
    assert load(tmp_path).policy.order == "fifo"
    other = tmp_path / "other.toml"
    other.write_text(LAS)
    monkeypatch.setenv("PHALANX_POOLS", str(other))
    assert load(tmp_path).policy.order == "las"
    assert pools_file(tmp_path) == (other, "$PHALANX_POOLS")
    assert load(tmp_path, tmp_path / "pools.toml").policy.order == "fifo"


def test_file_that_is_named_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsInvalid, match="can't be read"):
        load(tmp_path, tmp_path / "missing.toml")
    monkeypatch.setenv("PHALANX_POOLS", str(tmp_path / "missing.toml"))
    with pytest.raises(SettingsInvalid, match="can't be read"):
        load(tmp_path)
    monkeypatch.setenv("PHALANX_POOLS", "pools.toml")
    with pytest.raises(SettingsInvalid, match="must be an absolute path"):
        load(tmp_path)


def test_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    write(tmp_path / "pools.toml", FIFO)
    watched = WatchedSettings(tmp_path)
    first = watched.current()
    assert watched.current() is first
    write(tmp_path / "pools.toml", LAS)
    assert watched.current().policy.order == "las"


def test_file_that_appears_is_read(tmp_path: Path) -> None:
    watched = WatchedSettings(tmp_path)
    assert watched.current() == Settings()
    write(tmp_path / "pools.toml", FIFO)
    assert watched.current().policy.order == "fifo"


@pytest.mark.parametrize("spoil", [lambda file: write(file, "order ="), Path.unlink], ids=["invalid", "vanished"])
def test_last_good_settings_hold_and_an_error_is_logged_once_when_the_file_is_spoilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: object
) -> None:
    file = tmp_path / "pools.toml"
    write(file, FIFO)
    watched = WatchedSettings(tmp_path)
    good = watched.current()
    assert callable(spoil)
    spoil(file)
    with caplog.at_level(logging.ERROR):
        assert watched.current() is good
        assert watched.current() is good
    (record,) = caplog.records
    assert "the settings last read" in record.message
    assert str(file) in record.message
    write(file, LAS + "# put right")
    assert watched.current().policy.order == "las"


def test_process_that_never_read_a_good_file_is_told_each_time(tmp_path: Path) -> None:
    write(tmp_path / "pools.toml", "order =")
    watched = WatchedSettings(tmp_path)
    for _ in range(2):
        with pytest.raises(SettingsInvalid, match="is no TOML"):
            watched.current()


def test_one_watch_serves_a_process(tmp_path: Path) -> None:
    assert watch(tmp_path) is watch(tmp_path / "x" / "..")
