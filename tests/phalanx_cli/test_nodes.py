from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gang_controller.wiring import open_ledger
from gang_ledgers.ledger import ConditionState, Ledger, NodeCondition
from gang_scheduler.node import NodeState
from phalanx_cli.main import app
from tests.builders import a_gang, a_node_record
from tests.ledger_steps import running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PHALANX_LEDGER_URL_FILE", raising=False)
    (tmp_path / "ledger.url").write_text(f"sqlite:///{tmp_path / 'ledger.db'}")
    return tmp_path


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    """A ledger with a node in each of two pools, and another one in the first."""
    ledger = open_ledger(home)
    for record in (a_node_record("n1"), a_node_record("n2"), a_node_record("n2", pool="gpu", host_id="host-2")):
        ledger.register_node(record)
    yield ledger
    ledger.close()


def phalanx(home: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*arguments, "--home", str(home)])
    return done.exit_code, done.output


def as_json(home: Path, *arguments: str) -> Any:
    code, said = phalanx(home, *arguments, "--json")
    assert code == 0, said
    return json.loads(said)


def test_nodes_are_listed_with_what_runs_on_them_and_what_is_said(home: Path, ledger: Ledger) -> None:
    running(ledger, a_gang())
    found = as_json(home, "nodes", "list")
    assert [(node["pool"], node["node"], node["state"], node["gangs"]) for node in found] == [
        ("gpu", "n2", "ready", []),
        ("local", "n1", "ready", ["dag/run/train"]),
        ("local", "n2", "ready", []),
    ]
    assert [node["node"] for node in as_json(home, "nodes", "list", "--pool", "gpu")] == ["n2"]
    code, said = phalanx(home, "nodes", "list")
    assert code == 0
    assert "n1" in said


@pytest.mark.parametrize(("options", "state"), [([], "cordoned"), (["--drain"], "draining")])
def test_cordon_takes_a_node_out_of_use_and_uncordon_brings_it_back(
    home: Path, ledger: Ledger, options: list[str], state: str
) -> None:
    said = as_json(home, "nodes", "cordon", "n1", "--why", "a new fan", "--who", "ada", *options)
    assert (said["state"], said["why"], said["has_changed"]) == (state, "a new fan", True)
    (condition,) = said["conditions"]
    assert (condition["kind"], condition["who"], condition["effect"]) == ("cordon", "ada", state)
    assert not as_json(home, "nodes", "cordon", "n1", "--why", "a new fan", "--who", "ada", *options)["has_changed"]
    said = as_json(home, "nodes", "uncordon", "n1", "--why", "done")
    assert (said["state"], said["conditions"]) == ("ready", [])
    assert all(node.is_usable for node in ledger.nodes())


def test_uncordon_leaves_what_others_have_said_and_shows_it(home: Path, ledger: Ledger) -> None:
    fault = NodeCondition("local", "n1", "xid 79", ConditionState.SET, "kernel log", "GPU 3 is gone", NodeState.FAULTY)
    ledger.set_condition(fault)
    phalanx(home, "nodes", "cordon", "n1", "--why", "a look")
    code, said = phalanx(home, "nodes", "uncordon", "n1", "--why", "looked")
    assert code == 0
    assert "is now faulty: GPU 3 is gone" in said
    ledger.set_condition(replace(fault, state=ConditionState.CLEARED))


def test_person_is_told_what_stays_on_a_cordoned_node(home: Path, ledger: Ledger) -> None:
    running(ledger, a_gang())
    _, said = phalanx(home, "nodes", "cordon", "n1", "--why", "a new fan")
    assert "dag/run/train stay on it until they end" in said


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        pytest.param(["n9"], "no node 'n9' is registered; there are: n2 (gpu), n1 (local), n2 (local)", id="unknown"),
        pytest.param(["n2"], "gang pools gpu, local each have a node 'n2'; say which one with --pool", id="ambiguous"),
        pytest.param(["n1", "--pool", "gpu"], "no node 'n1' is registered in gang pool 'gpu'", id="other pool"),
    ],
)
def test_node_that_is_not_known_is_refused_with_those_that_are(
    home: Path, ledger: Ledger, arguments: list[str], found: str
) -> None:
    code, said = phalanx(home, "nodes", "cordon", *arguments, "--why", "a slip", "--json")
    assert code == 1
    assert found in json.loads(said)["error"]
    assert all(node.is_usable for node in ledger.nodes())


def test_node_of_one_pool_is_meant_when_the_pool_is_named(home: Path, ledger: Ledger) -> None:
    as_json(home, "nodes", "cordon", "n2", "--pool", "gpu", "--why", "a new fan")
    assert [(node.pool, node.node) for node in ledger.nodes() if not node.is_usable] == [("gpu", "n2")]
