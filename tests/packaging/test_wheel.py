"""The wheel holds every package of both source roots and nothing else, and works where nothing of the checkout is."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

# Imports each name, then says where it came from and which distributions own it.
IMPORT_ALL = """
import importlib, importlib.metadata, json, sys
modules = {name: importlib.import_module(name) for name in sys.argv[1:]}
owners = importlib.metadata.packages_distributions()
print(json.dumps({name: [module.__path__[0], sorted(set(owners[name]))] for name, module in modules.items()}))
"""


@pytest.fixture(scope="module")
def clean_python(wheel: Path, run_python: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what the wheel depends on is seen through a path entry.

    A path entry in a `.pth` file adds the other environment's distributions but not what *its* `.pth` files add,
    so the checkout, installed there in place, is out of reach.
    """
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run = run_python("-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    assert run.returncode == 0, run.stderr
    (site_packages,) = (folder / "lib").glob("python*/site-packages")
    beside = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site_packages / "dependencies.pth").write_text("\n".join(beside))
    return python


def test_wheel_holds_all_packages_and_only_those_when_it_is_built(wheel: Path, packages: dict[str, Path]) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(packages)
    for package, folder in packages.items():
        ours = {f"{package}/{path.relative_to(folder)}" for path in folder.rglob("*.py")}
        assert ours - set(names) == set()


def test_every_package_is_imported_from_the_wheel_when_nothing_of_the_checkout_is_on_the_path(
    clean_python: Path, packages: dict[str, Path], run_python: Run, tmp_path: Path
) -> None:
    run = run_python("-c", IMPORT_ALL, *packages, python=clean_python, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    for package, (folder, owners) in found.items():
        assert Path(folder).is_relative_to(clean_python.parents[1]), f"{package} came from {folder}"
        assert owners == ["phalanx"], f"{package} is owned by {owners}"


def test_command_line_and_provider_are_found_when_the_wheel_is_installed(
    clean_python: Path, run_python: Run, tmp_path: Path
) -> None:
    command = run_python(str(clean_python.with_name("phalanx")), "--help", python=clean_python, cwd=tmp_path)
    assert command.returncode == 0, command.stderr
    lookup = (
        "from importlib.metadata import entry_points as e\n"
        "(p,) = [p for p in e(group='apache_airflow_provider') if p.dist.name == 'phalanx']\n"
        "print(p.load()()['package-name'])"
    )
    provider = run_python("-c", lookup, python=clean_python, cwd=tmp_path)
    assert provider.stdout.split()[-1:] == ["phalanx"], provider.stderr


def test_ownership_check_fails_when_another_distribution_brings_a_package_of_the_same_name(tmp_path: Path) -> None:
    rival = tmp_path / "rival-1.dist-info"
    rival.mkdir()
    (rival / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1\n")
    (rival / "RECORD").write_text("operators/__init__.py,,\n")
    (tmp_path / "operators").mkdir()
    (tmp_path / "operators" / "__init__.py").touch()  # a backport of importlib.metadata passes over what is missing
    sys.path.insert(0, str(tmp_path))
    try:
        assert "rival" in packages_distributions()["operators"]
    finally:
        sys.path.remove(str(tmp_path))
