"""What the packaging tests share: where our code is, a copy of it, and a clean environment with the built wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT_PACKAGES = ("data_pipelines", "operators", "training")


@pytest.fixture(scope="session")
def packages(repository: Path) -> dict[str, Path]:
    """Our importable top-level packages and their folders, found as the wheel build finds them."""
    folders = [repository / name for name in ROOT_PACKAGES]
    folders += [path.parent for path in sorted((repository / "plugins").glob("*/__init__.py"))]
    return {folder.name: folder for folder in folders if folder.is_dir()}


@pytest.fixture(scope="session")
def tree(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes fresh copies of everything that import-linter and the build look at."""

    def copy() -> Path:
        target = tmp_path_factory.mktemp("tree")
        for name in (*ROOT_PACKAGES, "plugins", "dags"):
            if (repository / name).is_dir():
                shutil.copytree(repository / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(repository / name, target)
        return target

    return copy


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an interpreter (this one unless told) with a bare environment, so that nothing leaks in from here."""

    def run(
        *arguments: str, python: Path | None = None, cwd: Path | None = None, timeout_s: float = 300, **env: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("HOME", "PATH", "AIRFLOW_HOME", "TMPDIR") if name in os.environ}
        kept |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        return subprocess.run(
            [str(python or sys.executable), *arguments],
            cwd=cwd,
            env=kept | {"PYTHONDONTWRITEBYTECODE": "1"} | env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def wheel(
    tree: Callable[[], Path],
    run_python: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The built wheel."""
    target = tmp_path_factory.mktemp("wheel")
    built = run_python(
        "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(target), str(tree())
    )
    assert built.returncode == 0, built.stderr
    (found,) = target.glob("phalanx-*.whl")
    return found
