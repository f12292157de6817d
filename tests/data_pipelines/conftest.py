"""One real Spark run that most tests look at, and small partitions made without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DAYS = ("2013-01-10", "2013-02-08", "2013-12-31")  # an ordinary one, a snow storm, the one without weather

Job = Callable[..., subprocess.CompletedProcess[str]]


def job_command(module: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", f"data_pipelines.{module}", *map(str, arguments)]


def run_job(
    module: str, *arguments: str | Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = job_command(module, *arguments)
    environ = {**os.environ, **(environ or {})}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=500, check=False)


@dataclass(frozen=True)
class Built:
    data_dir: Path
    result: Mapping[str, Any]
    output: str


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Three days built by the command line; nobody may change them."""
    root = tmp_path_factory.mktemp("built")
    run = run_job("flights", "--data-dir", root / "data", "--days", ",".join(DAYS), "--json-result", root / "result")
    assert run.returncode == 0, run.stdout + run.stderr
    return Built(root / "data", json.loads((root / "result").read_text()), run.stdout)


@pytest.fixture
def own_data(built: Built, tmp_path: Path) -> Path:
    """A copy of the built days that a test may change."""
    return Path(shutil.copytree(built.data_dir, tmp_path / "data"))


@pytest.fixture
def no_system_java(tmp_path: Path) -> dict[str, str]:
    """An environment with the usual programs, but without a Java."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return {"PATH": str(programs), "JAVA_HOME": ""}


def content_of(data_dir: Path, days: Sequence[str] = DAYS) -> dict[str, bytes]:
    """The bytes of every file of these partitions, manifests but for their time."""
    found = {}
    for day in days:
        folder = data_dir / "flights" / f"day={day}"
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            if path.name == "manifest.json":
                content = json.dumps(json.loads(content) | {"created_at": ""}).encode()
            found[str(path.relative_to(data_dir))] = content
    return found
