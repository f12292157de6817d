from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedded_stack import home_lock
from embedded_stack.airflow_settings import environment
from embedded_stack.errors import StackError
from embedded_stack.secret_store import Secrets
from embedded_stack.stack_record import StackRecord, StackState
from embedded_stack.state_folder import SCHEMA, StateFolder, write_json


def test_a_folder_with_other_things_is_neither_taken_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    folder = StateFolder.at(tmp_path)
    with pytest.raises(StackError, match="holds other things"):
        folder.prepare()
    with pytest.raises(StackError, match="Nothing was removed"):
        folder.remove()
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "home")
    folder.prepare()
    write_json(folder.mark, {"kind": "phalanx state folder", "schema": SCHEMA + 1})
    with pytest.raises(StackError, match="newer version"):
        folder.prepare()


def test_removal_leaves_what_a_link_points_to(tmp_path: Path) -> None:
    elsewhere = tmp_path / "data"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    folder = StateFolder.at(tmp_path / "home")
    folder.prepare()
    (folder.home / "data").symlink_to(elsewhere)
    folder.remove()
    assert not folder.home.exists()
    assert (elsewhere / "kept").exists()


def test_secrets_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    first = Secrets.of(path)
    assert Secrets.of(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    kept = json.loads(path.read_text())
    del kept["fernet_key"]
    write_json(path, kept)
    second = Secrets.of(path)  # a version that knows a secret more keeps the others
    assert second.admin_password == first.admin_password
    assert second.fernet_key != first.fernet_key


def test_the_lock_is_one_holder_s_and_names_it(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "home")
    folder.prepare()
    with home_lock.held(folder), pytest.raises(StackError, match="is running already"), home_lock.held(folder):
        pass
    with home_lock.held(folder):
        pass


def test_a_record_without_a_living_launcher_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"
    assert StackRecord.read(path).state is StackState.DOWN
    StackRecord(StackState.UP).write(path)
    assert StackRecord.read(path).state is StackState.LOST
    StackRecord(StackState.DOWN).write(path)
    assert StackRecord.read(path).state is StackState.DOWN


def test_airflow_s_environment_drops_what_the_configuration_file_owns(tmp_path: Path) -> None:
    chosen = {"database": {"sql_alchemy_conn": "postgresql://secret"}}
    inherited = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite://",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD": "cat x",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "PHALANX_DATABASE_URL": "postgresql://admin:secret@host/db",
        "PATH": "/bin",
    }
    made = environment(StateFolder.at(tmp_path), chosen, inherited)
    assert not [name for name in made if "SQL_ALCHEMY_CONN" in name]
    assert "PHALANX_DATABASE_URL" not in made
    assert (made["AIRFLOW__CORE__PARALLELISM"], made["PATH"]) == ("4", "/bin")
    assert not [value for value in made.values() if "secret" in value]
