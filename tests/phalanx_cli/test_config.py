from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx_cli.main import app


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a ledger's URL and settings; nothing in the environment names others."""
    for name in ("HOME", "POOLS", "LEDGER_URL_FILE", "RUNS_DIR", "LOCAL_SLOTS"):
        monkeypatch.delenv(f"PHALANX_{name}", raising=False)
    (tmp_path / "ledger.url").write_text("postgresql+psycopg://ledger:s3cret@localhost/ledger")
    (tmp_path / "pools.toml").write_text("[policy]\nmin_run = '10m'\n[queue.default]\nweight = 2\n")
    return tmp_path


def show(*arguments: str | Path) -> dict[str, tuple[object, str]]:
    """Values and origins by key."""
    done = CliRunner().invoke(app, ["config", "show", "--json", *(str(argument) for argument in arguments)])
    assert done.exit_code == 0, done.output
    return {found["key"]: (found["value"], found["origin"]) for found in json.loads(done.output)}


def test_each_value_has_its_origin(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_LOCAL_SLOTS", "3")
    found = show("--home", home)
    file = home / "pools.toml"
    assert found["home"] == (str(home), "--home")
    assert found["pools_file"] == (str(file), "default")
    assert found["policy.min_run"] == ("10m", f"{file}:2")
    assert found["policy.aged_after"] == ("7d", "default")
    assert found["queue.default.weight"] == (2.0, f"{file}:4")
    assert found["queue.default.max_gangs"] == (0, "default")
    assert found["local_slots"] == (3.0, "$PHALANX_LOCAL_SLOTS")


def test_environment_names_the_file_and_the_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = home / "other.toml"
    other.write_text("[pool.local]\n[[pool.local.nodes]]\nname = 'localhost'\ncpus = 5\nmemory_gib = 8\n")
    monkeypatch.setenv("PHALANX_HOME", str(home))
    monkeypatch.setenv("PHALANX_POOLS", str(other))
    monkeypatch.setenv("PHALANX_RUNS_DIR", "/elsewhere")
    found = show()
    assert found["home"] == (str(home), "$PHALANX_HOME")
    assert found["pools_file"] == (str(other), "$PHALANX_POOLS")
    assert found["runs_dir"] == ("/elsewhere", "$PHALANX_RUNS_DIR")
    assert found["local_slots"] == (5.0, f"{other}:1")
    assert show("--pools", home / "pools.toml")["pools_file"] == (str(home / "pools.toml"), "--pools")


def test_only_what_is_given_is_shown_when_asked_so(home: Path) -> None:
    assert set(show("--home", home, "--given")) == {"home", "policy.min_run", "queue.default.weight"}


def test_ledgers_url_is_never_shown(home: Path) -> None:
    for options in ([], ["--json"]):
        done = CliRunner().invoke(app, ["config", "show", "--home", str(home), *options])
        assert done.exit_code == 0
        assert "s3cret" not in done.output
        assert str(home / "ledger.url") in done.output


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PHALANX_LOCAL_SLOTS", "many", "PHALANX_LOCAL_SLOTS is 'many'; it must be a number above 0"),
        ("PHALANX_POOLS", "pools.toml", "must be an absolute path"),
        ("PHALANX_POOLS", "/nowhere/pools.toml", "can't be read"),
    ],
)
def test_environment_that_makes_no_sense_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = CliRunner().invoke(app, ["config", "show", "--home", str(home)])
    assert done.exit_code == 1
    assert said in done.output
