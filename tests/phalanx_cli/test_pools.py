from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx_cli.main import app


def phalanx(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


@pytest.fixture
def example(repository: Path) -> Path:
    return repository / "docs" / "examples" / "pools.toml"


def test_picture_of_a_valid_file_is_printed(example: Path) -> None:
    code, said = phalanx("pools", "check", example)
    assert code == 0
    for line in (
        "pool gpu (training), admitted to by phalanx: 144 nodes",
        "├── spine: 3 domains of 16 to 64 nodes",
        "│   └── leaf: 10 domains of 8 to 16 nodes",
        "1,088 whole GPUs: 1,088 H100",
        "96 MIG instances 3g.40gb",
        "all nodes: 2,712.00 an hour, 1,144.0 kW, capped at 1,000.0 kW",
        "warning: queues own 1,024 of the 1,088 gpus of pool 'gpu'",
        f"{example} is valid",
    ):
        assert line in said
    assert next(line.split() for line in said.splitlines() if line.startswith("research")) == [
        "research", "company", "gpu", "gpus", "640", "256", "320", "896",
    ]  # fmt: skip


def test_picture_is_one_document_for_programs(example: Path) -> None:
    code, said = phalanx("pools", "check", example, "--json")
    found = json.loads(said)
    assert (code, found["is_valid"]) == (0, True)
    assert [(pool["name"], pool["nodes"]) for pool in found["pools"]] == [("gpu", 144), ("serving", 12), ("cpu", 200)]
    assert found["quotas"][0]["most"] == 704
    assert len(found["warnings"]) == 3


def test_invalid_file_exits_1_with_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "pools.toml"
    file.write_text("[policy]\norder = 'lifo'\n[priority]\nhigh = 'x'\n")
    code, said = phalanx("pools", "check", file)
    assert code == 1
    assert f"phalanx: {file}:2: [policy]: order = \"lifo\": must be one of 'due', " in said
    assert f'{file}:4: [priority]: high = "x": must be a whole number' in said
    code, said = phalanx("pools", "check", file, "--json")
    assert code == 1
    found = json.loads(said)
    assert (found["is_valid"], [problem["line"] for problem in found["problems"]]) == (False, [2, 4])


def test_file_that_holds_here_is_checked_when_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_POOLS", raising=False)
    (tmp_path / "pools.toml").write_text("[queue.default]\n")
    code, said = phalanx("pools", "check", "--home", tmp_path)
    assert (code, said.strip()) == (0, f"{tmp_path / 'pools.toml'} is valid")


def test_missing_file_is_told(tmp_path: Path) -> None:
    code, said = phalanx("pools", "check", tmp_path / "none.toml")
    assert code == 1
    assert "can't be read: No such file or directory. Name a readable file" in said


def test_many_nodes_are_summarised(tmp_path: Path) -> None:
    file = tmp_path / "pools.toml"
    file.write_text(
        "[pool.big]\nlevels = ['leaf']\n[[pool.big.nodes]]\nname = 'n[00000-09999]'\ncpus = 64\nmemory_gib = 512\n"
        "per_domain = { leaf = 20 }\n"
    )
    code, said = phalanx("pools", "check", file)
    assert code == 0
    assert "pool big, admitted to by phalanx: 10,000 nodes" in said
    assert "leaf: 500 domains of 20 nodes" in said
    assert len(said.splitlines()) < 10
