from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gang_controller.wiring import open_registry
from model_registry.registry import NewModel
from phalanx_cli.main import app

DAY = datetime(2013, 1, 10, tzinfo=UTC)


def a_model(number: int) -> NewModel:
    return NewModel(
        name="flights",
        digest=f"spec-{number}",
        gang_id=f"nightly/run-{number}/train",
        dag_id="nightly",
        run_id=f"run-{number}",
        data_from=DAY - timedelta(days=7),
        data_until=DAY + timedelta(days=number),
        seen_until=DAY + timedelta(days=number + 1),
        uri=f"/models/{number}",
        model_digest=f"weights-{number}",
        code_version="1",
        metrics={"challenger": {"auc": 0.7 + number / 100}, "curve": [1, 2]},
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder whose registry holds two models, the second of them champion."""
    monkeypatch.delenv("PHALANX_LEDGER_URL_FILE", raising=False)
    (tmp_path / "ledger.url").write_text(f"sqlite:///{tmp_path / 'ledger.db'}")
    registry = open_registry(tmp_path)
    first, second = registry.register(a_model(1)), registry.register(a_model(2))
    registry.move_champion("flights", first.model_id, None, run="run-1", who="airflow", why="the first")
    registry.move_champion("flights", second.model_id, first.model_id, run="run-2", who="airflow", why="better")
    return tmp_path


def phalanx(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def test_list_marks_the_champion(home: Path) -> None:
    code, said = phalanx("models", "list", "--home", str(home), "--json")
    assert code == 0
    assert [(m["model_id"], m["is_champion"]) for m in json.loads(said)] == [(2, True), (1, False)]
    code, said = phalanx("models", "list", "--home", str(home))
    assert code == 0
    assert "champion" in said
    assert "0.7200" in said


def test_show_has_metrics_and_every_move(home: Path) -> None:
    code, said = phalanx("models", "show", "1", "--home", str(home))
    assert code == 0
    assert "challenger.auc  0.7100" in said
    assert "better" in said
    code, said = phalanx("models", "show", "1", "--home", str(home), "--json")
    assert [move["to_model"] for move in json.loads(said)["champion_moves"]] == [1, 2]


def test_rollback_moves_the_pointer_back_for_the_record(home: Path) -> None:
    code, said = phalanx(
        "models", "rollback", "flights", "--why", "drift", "--who", "ada", "--home", str(home), "--json"
    )
    assert (code, json.loads(said)["champion"]) == (0, 1)
    last = open_registry(home).history("flights")[-1]
    assert (last.from_model, last.to_model, last.who, last.why) == (2, 1, "ada", "drift")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("models", "show", "99"), "99"),
        (("models", "rollback", "birds", "--why", "x"), "birds"),
        (("gangs", "show", "a/b/c"), "no gang 'a/b/c' was ever asked for"),
    ],
    ids=["unknown model", "unknown name", "unknown gang"],
)
def test_what_is_not_there_is_a_clear_error(home: Path, arguments: tuple[str, ...], message: str) -> None:
    code, said = phalanx(*arguments, "--home", str(home))
    assert code == 1
    assert message in said
    code, said = phalanx(*arguments, "--home", str(home), "--json")
    assert code == 1
    assert message in json.loads(said)["error"]


def test_no_ledger_is_a_clear_error(tmp_path: Path) -> None:
    code, said = phalanx("gangs", "list", "--home", str(tmp_path))
    assert code == 1
    assert "phalanx up" in said


def test_gangs_are_none_when_none_was_asked_for(home: Path) -> None:
    assert phalanx("gangs", "list", "--home", str(home)) == (0, "no gang was ever asked for\n")
    assert phalanx("gangs", "list", "--home", str(home), "--json") == (0, "[]\n")
