"""Each rule of the core, switched off in a copy of it, makes a test fail: no rule is there that nobody would miss."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gang_scheduler.rules import RULES, Rule

CORE, TESTS = "plugins/gang_scheduler", "tests/gang_scheduler"


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rule_is_found_in_the_source_when_it_is_to_be_switched_off(rule: Rule, repository: Path) -> None:
    source = (repository / CORE / f"{rule.module}.py").read_text()
    assert source.count(rule.text) == 1
    assert (Path(__file__).parent / f"{rule.missed_by}.py").exists()


def outcome(copy: Path, tests: list[str], repository: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests with that copy of the core before any other on the path."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def copied(repository: Path, to: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / CORE, to / "gang_scheduler", ignore=ignored)
    return to


@pytest.mark.slow
def test_tests_pass_when_no_rule_is_switched_off(tmp_path: Path, repository: Path) -> None:
    tests = sorted({f"{TESTS}/{rule.missed_by}.py" for rule in RULES})
    ran = outcome(copied(repository, tmp_path), tests, repository)
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout


@pytest.mark.slow
def test_tests_use_the_copy_when_one_is_made(tmp_path: Path, repository: Path) -> None:
    (copied(repository, tmp_path) / "gang_scheduler" / "plan.py").write_text(
        "raise RuntimeError('this copy is used')\n"
    )
    assert "this copy is used" in outcome(tmp_path, [f"{TESTS}/test_placement.py"], repository).stdout


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_a_test_fails_when_the_rule_is_switched_off(rule: Rule, tmp_path: Path, repository: Path) -> None:
    module = copied(repository, tmp_path) / "gang_scheduler" / f"{rule.module}.py"
    module.write_text(module.read_text().replace(rule.text, rule.without))
    ran = outcome(tmp_path, [f"{TESTS}/{rule.missed_by}.py"], repository)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    assert "Error: " not in ran.stdout.replace("AssertionError: ", ""), (
        "it fails by what it finds, not by a broken copy"
    )
