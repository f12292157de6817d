from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gang_controller.wiring import open_ledger
from gang_ledgers.ledger import Directive, Ledger
from gang_scheduler.gang_state import GangState
from phalanx_cli.main import app
from tests.builders import a_claim, a_gang, a_node_record
from tests.ledger_steps import DONE, STOPPED, running, tick
from training.seeing.requests import SeeingRequest

GANG_ID = "dag/run/train"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PHALANX_LEDGER_URL_FILE", raising=False)
    (tmp_path / "ledger.url").write_text(f"sqlite:///{tmp_path / 'ledger.db'}")
    return tmp_path


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    ledger = open_ledger(home)
    ledger.register_node(a_node_record())
    yield ledger
    ledger.close()


def phalanx(home: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["gangs", *arguments, "--home", str(home)])
    return done.exit_code, done.output


def as_json(home: Path, *arguments: str) -> Any:
    code, said = phalanx(home, *arguments, "--json")
    assert code == 0, said
    return json.loads(said)


def test_hold_and_its_release_are_recorded_with_who_and_why(home: Path, ledger: Ledger) -> None:
    ledger.submit(a_gang(), a_claim())
    said = as_json(home, "hold", GANG_ID, "--why", "data are being mended", "--who", "ada")
    assert (said["is_held"], said["held_why"]) == (True, "data are being mended (ada)")
    tick(ledger)
    (listed,) = as_json(home, "list")
    assert (listed["state"], listed["wait_reason"], listed["is_held"]) == ("queued", "held", True)
    assert "data are being mended (ada)" in phalanx(home, "list")[1]
    assert not as_json(home, "hold", GANG_ID, "--release", "--why", "mended", "--who", "ada")["is_held"]
    shown = as_json(home, "show", GANG_ID)
    assert [row["event"] for row in shown["history"]] == ["submitted", "held", "waiting", "hold-lifted"]


def test_requeue_says_what_happens_to_one_that_runs(home: Path, ledger: Ledger) -> None:
    key = running(ledger, a_gang())
    code, said = phalanx(home, "requeue", GANG_ID, "--why", "make room")
    assert (code, said) == (
        0,
        f"gang '{GANG_ID}' submission 1 (running) stops with a checkpoint and is queued again\n",
    )
    assert ledger.renew(key, None) is Directive.STOP
    ledger.end_attempt(key, STOPPED)
    _, said = phalanx(home, "requeue", GANG_ID, "--why", "again")
    assert "waits already" in said


def test_cancelled_gang_stops_for_good(home: Path, ledger: Ledger) -> None:
    ledger.submit(a_gang(), a_claim())
    code, _ = phalanx(home, "cancel", GANG_ID, "--why", "not wanted", "--who", "ada")
    assert code == 0
    tick(ledger)
    record = ledger.state(GANG_ID)
    assert record is not None
    assert record.state is GangState.INTERRUPTED
    assert record.verdict is not None
    assert "not wanted (ada)" in record.verdict.sentence


def test_running_gang_is_asked_for_a_profile_and_a_check(home: Path, ledger: Ledger) -> None:
    key = running(ledger, a_gang())
    record = ledger.state(GANG_ID)
    assert record is not None
    run_dir = Path(record.run_dir)
    run_dir.mkdir(parents=True)
    code, said = phalanx(home, "profile", GANG_ID, "--steps", "3")
    assert code == 0
    assert f"launch-{key.attempt}/trace-rank<r>" in said.replace("\n", "")
    assert phalanx(home, "check", GANG_ID)[0] == 0
    profile = SeeingRequest.read(run_dir, "profile")
    assert profile is not None
    assert profile.steps == 3
    check = SeeingRequest.read(run_dir, "corruption-check")
    assert check is not None
    assert check.id != profile.id


def test_nothing_is_asked_of_a_gang_that_does_not_run(home: Path, ledger: Ledger) -> None:
    ledger.submit(a_gang(), a_claim())
    code, said = phalanx(home, "profile", GANG_ID, "--json")
    assert code == 1
    assert "a profile was asked for, and it is queued" in json.loads(said)["error"]


@pytest.mark.parametrize("command", ["hold", "requeue", "cancel", "show", "profile", "check"])
def test_unknown_gang_is_refused(home: Path, ledger: Ledger, command: str) -> None:
    why = [] if command in ("show", "profile", "check") else ["--why", "a slip"]
    code, said = phalanx(home, command, "dag/run/never", *why, "--json")
    assert code == 1
    assert json.loads(said) == {
        "error": "no gang 'dag/run/never' was ever asked for; `phalanx gangs list` shows all",
        "kind": "UnknownGang",
    }


@pytest.mark.parametrize("command", ["hold", "requeue", "cancel"])
def test_ended_gang_is_refused_with_what_to_do(home: Path, ledger: Ledger, command: str) -> None:
    ledger.end_attempt(running(ledger, a_gang()), DONE)
    code, said = phalanx(home, command, GANG_ID, "--why", "too late", "--json")
    assert code == 1
    found = json.loads(said)
    assert found["kind"] == "GangHasEnded"
    assert "its submission 1 succeeded at" in found["error"]
    assert "clear its task in Airflow" in found["error"]
