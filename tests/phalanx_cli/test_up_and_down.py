from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_stack.state_folder import StateFolder
from phalanx_cli.main import app


def phalanx(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--once",), "--once and --conf say how to --run"),
        (("--run", "x", "--once", "--detach"), "choose one"),
        (("--run", "x", "--conf", "{"), "--conf takes a JSON object or @FILE"),
        (("--run", "x", "--conf", "[1]"), "holds a list"),
        (("--dags", "/no/such/folder"), "--dags /no/such/folder: there is no such folder"),
    ],
    ids=["once without run", "once and detached", "no json", "no object", "no folder"],
)
def test_up_refuses_what_can_not_be_meant(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, said = phalanx("up", "--home", str(tmp_path / "home"), *arguments)
    assert code == 1
    assert message in said
    assert not (tmp_path / "home").exists()


def test_down_is_content_when_nothing_was_ever_started(tmp_path: Path) -> None:
    code, said = phalanx("down", "--home", str(tmp_path / "home"), "--json")
    assert (code, json.loads(said[said.index("{") :])["was"]) == (0, "down")
    assert not (tmp_path / "home").exists()


def test_purge_refuses_a_folder_that_is_not_a_state_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    code, said = phalanx("down", "--purge", "--home", str(tmp_path))
    assert code == 1
    assert "is no state folder of Phalanx" in said
    assert (tmp_path / "thesis.tex").exists()


def test_purge_removes_a_state_folder_that_is_down(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "home")
    folder.prepare()
    code, _ = phalanx("down", "--purge", "--home", str(folder.home))
    assert code == 0
    assert not folder.home.exists()


def test_status_of_nothing_is_down(tmp_path: Path) -> None:
    code, said = phalanx("status", "--home", str(tmp_path / "home"), "--json")
    assert code == 1
    assert json.loads(said)["state"] == "down"
