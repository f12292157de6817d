"""`training` and `data_pipelines` work where neither Airflow nor the scheduler is installed."""

from __future__ import annotations

import re
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

# Refuses what a trainer's machine hasn't got, then runs pytest with the arguments.
REFUSE = """
import importlib.abc, re, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if re.fullmatch(sys.argv[1], fullname.split(".")[0]):
            raise ModuleNotFoundError(f"{fullname} is not installed here", name=fullname)

sys.meta_path.insert(0, Refuse())
for name in sys.argv[2].split(","):
    __import__(name)
import pytest
sys.exit(pytest.main(sys.argv[3:]))
"""
NOT_THERE = (
    r"airflow|airflow_.*|gang_.*|operators|dags|cluster_view|phalanx_cli|model_registry|pool_settings|embedded_stack"
)
# Read by operators and supervisors, which have no torch (docs/contracts.md, "Training process").
LIGHT = ("run_spec", "spec_file", "optimizer_spec", "world", "checkpoint_manifest", "heartbeat", "exit_codes")


def modules(package: Path) -> list[str]:
    """Every module of a package by its dotted name."""
    paths = (path.relative_to(package.parent).with_suffix("") for path in sorted(package.rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths if path.stem != "__main__"]


def test_every_module_is_importable_when_airflow_and_the_scheduler_are_missing(
    run_python: Run, packages: dict[str, Path]
) -> None:
    names = ",".join([*modules(packages["training"]), *modules(packages["data_pipelines"])])
    run = run_python("-c", REFUSE, NOT_THERE, names, "--version")
    assert run.returncode == 0, run.stderr


def test_light_tests_pass_when_torch_and_pyspark_are_missing_too(run_python: Run, repository: Path) -> None:
    files = [repository / "tests" / "training" / f"test_{name}.py" for name in LIGHT]
    files.append(repository / "tests" / "data_pipelines" / "test_manifest.py")
    there = [str(path) for path in files if path.is_file()]
    assert there, "no tests of the light modules were found"
    names = ",".join([*(f"training.{name}" for name in LIGHT), "data_pipelines.manifest"])
    refused = f"{NOT_THERE}|torch|pyspark"
    run = run_python(
        "-c", REFUSE, refused, names, *there, "-q", "-m", "not slow", "-p", "no:cacheprovider", cwd=repository
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.timeout(2700)
def test_training_and_pipelines_pass_their_tests_when_airflow_was_never_installed(
    wheel: Path, run_python: Run, repository: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    pins = (repository / "requirements.lock").read_text()
    tools = [found.group() for found in re.finditer(r"^(pytest|pytest-timeout|hypothesis)==\S+", pins, re.MULTILINE)]
    install = ("-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile")
    lock = ("-c", str(repository / "requirements.lock"))
    installed = run_python(*install, *lock, f"{wheel}[training,spark]", *tools, timeout_s=900)
    assert installed.returncode == 0, installed.stderr
    absent = run_python("-c", "import airflow", python=python, cwd=tmp_path)
    assert "ModuleNotFoundError" in absent.stderr
    # The checkout is on the path for `tests` to be found; what is missing here is what isn't installed.
    options = ("-q", "-p", "no:cacheprovider", "-m", "not slow", "--rootdir", str(repository))
    suites = [str(repository / "tests" / name) for name in ("training", "data_pipelines")]
    settings = ("-c", str(repository / "pyproject.toml"))
    run = run_python("-m", "pytest", *options, *settings, *suites, python=python, cwd=tmp_path, timeout_s=1500)
    assert run.returncode == 0, run.stdout + run.stderr
