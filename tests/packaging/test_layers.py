"""Each import contract of pyproject.toml holds, and is broken by an import that it is there to forbid."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

# contract id -> (file that the import is added to, the import)
BREAKS = {
    "layers": [
        ("plugins/gang_scheduler/gang.py", "import gang_ledgers"),
        ("plugins/gang_ledgers/ledger.py", "import gang_controller"),
        ("plugins/gang_backends/backend.py", "import gang_ledgers"),
        ("plugins/pool_settings/settings.py", "import gang_ledgers"),
        ("plugins/gang_controller/wiring.py", "import embedded_stack"),
        ("plugins/embedded_stack/__init__.py", "import phalanx_cli"),
        ("operators/__init__.py", "import phalanx_cli"),
        ("operators/provider.py", "import dags.nightly_retraining"),
    ],
    "core": [
        ("plugins/gang_scheduler/plan.py", "import os"),
        ("plugins/gang_scheduler/plan.py", "from time import monotonic"),
        ("plugins/gang_scheduler/gang.py", "import sqlalchemy"),
        ("plugins/gang_scheduler/verdict.py", "import random"),
    ],
    "trainer": [
        ("training/run_spec.py", "import airflow.sdk"),
        ("training/train.py", "from gang_scheduler.verdict import Cause"),
        ("training/train.py", "import data_pipelines.manifest"),
    ],
    "pipelines": [
        ("data_pipelines/manifest.py", "import airflow"),
        ("data_pipelines/manifest.py", "import training.run_spec"),
        ("data_pipelines/manifest.py", "import gang_scheduler"),
    ],
    "light": [
        ("dags/nightly_retraining.py", "import pyspark.sql"),
        ("operators/provider.py", "import training.train"),
        # Two hops away, from below the layer that must not reach it.
        ("plugins/gang_ledgers/ledger.py", "import torch"),
    ],
    "run-contract": [
        ("training/run_spec.py", "import torch"),
        ("training/heartbeat.py", "import training.train"),
    ],
    "wiring": [
        ("operators/provider.py", "import gang_ledgers.sql"),
        ("plugins/gang_controller/controller.py", "import gang_backends.local_process.supervisor"),
        ("plugins/embedded_stack/launcher.py", "import model_registry.sql"),
    ],
}


# The checkout is installed in place; without it, `dags` (no __init__.py) would be the copy and the original together.
LINT = """
import sys
sys.path[:] = [entry for entry in sys.path if entry not in sys.argv[1:]]
sys.argv[1:] = ["--no-cache", "--no-logo"]
from importlinter.cli import lint_imports_command
lint_imports_command()
"""


@pytest.fixture
def lint(repository: Path, tree: Callable[[], Path]) -> Callable[[dict[str, str]], str]:
    """Adds imports to files of a fresh copy and returns what import-linter says of it."""

    def run(added: dict[str, str]) -> str:
        root = tree()
        for name, line in added.items():
            path = root / name
            assert path.is_file(), f"{name} is gone; name another file in BREAKS"
            path.write_text(f"{path.read_text()}\n{line}\n")
        found = subprocess.run(
            [sys.executable, "-c", LINT, str(repository), str(repository / "plugins")],
            cwd=root,
            env={"PYTHONPATH": f"{root}:{root / 'plugins'}", "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return found.stdout + found.stderr

    return run


def contracts(repository: Path) -> dict[str, str]:
    """Contract names by id."""
    settings = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {contract["id"]: contract["name"] for contract in settings["contracts"]}


def verdicts(output: str) -> dict[str, str]:
    return dict(re.findall(r"^(.+?) (KEPT|BROKEN)(?: |$)", output, flags=re.MULTILINE))


def test_every_contract_is_kept_when_nothing_is_added(repository: Path, lint: Callable[[dict[str, str]], str]) -> None:
    output = lint({})
    assert verdicts(output) == dict.fromkeys(contracts(repository).values(), "KEPT"), output


def test_every_contract_has_a_case_that_breaks_it(repository: Path) -> None:
    assert set(BREAKS) == set(contracts(repository))


def test_wiring_contract_names_every_concrete_module_when_a_ledger_or_registry_gains_one(repository: Path) -> None:
    settings = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]
    (wiring,) = [contract for contract in settings["contracts"] if contract["id"] == "wiring"]
    files = [
        path for name in ("gang_ledgers", "model_registry") for path in (repository / "plugins" / name).glob("sql*")
    ]
    assert {f"{path.parent.name}.{path.stem}" for path in files} <= set(wiring["protected_modules"])


@pytest.mark.parametrize(
    ("contract", "file", "line"),
    [
        pytest.param(contract, *case, id=f"{contract}: {case[1]}")
        for contract, cases in BREAKS.items()
        for case in cases
    ],
)
def test_contract_is_broken_when_a_forbidden_import_is_added(
    repository: Path, lint: Callable[[dict[str, str]], str], contract: str, file: str, line: str
) -> None:
    output = lint({file: line})
    assert verdicts(output)[contracts(repository)[contract]] == "BROKEN", output
