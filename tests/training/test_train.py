"""The program from outside: exit codes and outcome files of a rank that ends before it can train."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.day_partitions import a_spec
from training.recipes.flights_spec import Partition


def run_train(*arguments: str, folder: Path, repository: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"} | env
    return subprocess.run(
        [sys.executable, "-m", "training.train", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def outcome(run_dir: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run_dir / "launch-1" / "outcome-rank0.json").read_text())
    return content


@pytest.mark.parametrize(
    ("change", "env", "expected"),
    [
        ({"seed": -1}, {}, "seed = -1: input should be greater than or equal to 0"),
        ({}, {"PHALANX_FAIL_AT": "soon"}, "PHALANX_FAIL_AT = 'soon' is not <rank>:<step>"),
    ],
    ids=["spec", "injection"],
)
def test_a_bad_spec_ends_with_64_and_says_what_is_wrong(
    four_days: list[Partition],
    tmp_path: Path,
    repository: Path,
    change: dict[str, Any],
    env: dict[str, str],
    expected: str,
) -> None:
    content = json.loads(a_spec(four_days).to_json()) | change
    (tmp_path / "run_spec.json").write_text(json.dumps(content))
    run = run_train("run_spec.json", folder=tmp_path, repository=repository, **env)
    assert run.returncode == 64
    assert expected in run.stderr
    assert expected in outcome(tmp_path)["error"]["message"]
    assert outcome(tmp_path)["error"]["type"] == "BadSpec"
    assert not (tmp_path / "attempts").exists()


def test_a_missing_file_ends_with_65_and_names_it(own_days: list[Partition], tmp_path: Path, repository: Path) -> None:
    missing = Path(own_days[1].manifest).with_name("part-0.parquet")
    missing.unlink()
    (tmp_path / "run_spec.json").write_text(a_spec(own_days, workers=1).to_json())
    run = run_train("run_spec.json", folder=tmp_path, repository=repository)
    assert run.returncode == 65
    assert f"file {missing} is missing" in run.stderr
    assert outcome(tmp_path)["exit_code"] == 65


def test_an_error_of_the_program_ends_with_70_and_leaves_its_traceback(
    four_days: list[Partition], tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "run_spec.json").write_text(a_spec(four_days, workers=1).to_json())
    run = run_train("run_spec.json", folder=tmp_path, repository=repository, PHALANX_FAIL_AT="0:7:raise")
    assert run.returncode == 70
    error = outcome(tmp_path)["error"]
    assert error["type"] == "InjectedFault"
    assert "fault_injection.py" in error["traceback"]
    assert outcome(tmp_path)["step"] == 5
    assert "attempt 1: starts from scratch" in run.stdout


def test_a_wrong_call_shows_how_to_call(tmp_path: Path, repository: Path) -> None:
    run = run_train(folder=tmp_path, repository=repository)
    assert run.returncode == 64
    assert run.stderr.startswith("usage: ")
