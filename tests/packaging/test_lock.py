"""The locks name every distribution that is needed, exactly, and nothing about where they came from."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Run = Callable[..., subprocess.CompletedProcess[str]]
EXTRAS = {
    "requirements.lock": ("airflow", "spark", "ray", "training", "dev"),
    "docker/airflow.lock": ("airflow", "spark"),
    "docker/trainer.lock": ("training",),
}
LOCKS = [pytest.param(name, id=name) for name in EXTRAS]


def pins(path: Path) -> dict[str, str]:
    """Versions by canonical name; refuses any line that is not an exact pin or a comment."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)(\s+#.*)?", line)
        assert pin, f"{path.name}: {line!r} is no exact pin"
        found[canonicalize_name(pin[1])] = pin[2]
    return found


def needed(name: str, extras: tuple[str, ...], seen: set[tuple[str, str]]) -> Iterator[tuple[str, Requirement]]:
    """Every requirement reachable from a distribution and its extras, as (who asks, what)."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        # A torch built for CUDA asks for libraries that a torch built for CPU does not; see .ci/setup.
        if name == "torch" and re.match(r"nvidia-|triton|cuda-", requirement.name):
            continue
        yield name, requirement
        for extra in ("", *sorted(requirement.extras)):
            key = (canonicalize_name(requirement.name), extra)
            if key not in seen:
                seen.add(key)
                yield from needed(requirement.name, (extra,) if extra else (), seen)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_complete_when_installed_without_resolving(lock: str, repository: Path) -> None:
    locked = pins(repository / lock)
    for asker, requirement in needed("phalanx", EXTRAS[lock], set()):
        found = locked.get(canonicalize_name(requirement.name))
        assert found, f"{asker} needs {requirement}, which {lock} lacks; run `make lock`"
        assert requirement.specifier.contains(found, prereleases=True), (
            f"{asker} needs {requirement}, {lock} has {found}"
        )


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_says_nothing_of_a_registry_or_a_machine(lock: str, repository: Path) -> None:
    text = (repository / lock).read_text()
    assert not re.search(r"://|--index|--find-links|--hash|file:|/home/|/root/|/opt/| @ ", text)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_without_a_local_version_so_that_any_build_of_torch_serves(lock: str, repository: Path) -> None:
    assert [pin for pin in pins(repository / lock).values() if "+" in pin] == []


def test_both_spark_distributions_are_of_one_version(repository: Path) -> None:
    locked = pins(repository / "requirements.lock")
    assert (locked["pyspark"], locked["pyspark-client"], locked["torch"]) == ("4.2.0", "4.2.0", "2.13.0")


def test_image_locks_agree_with_the_main_lock_and_keep_apart_what_the_images_keep_apart(repository: Path) -> None:
    main = pins(repository / "requirements.lock")
    airflow, trainer = pins(repository / "docker/airflow.lock"), pins(repository / "docker/trainer.lock")
    assert airflow.items() <= main.items()
    assert trainer.items() <= main.items()
    assert "torch" not in airflow
    assert not [name for name in trainer if name.startswith("apache-airflow")]


def test_this_environment_is_the_locked_one_and_consistent(repository: Path, run_python: Run) -> None:
    locked = pins(repository / "requirements.lock")
    differing = {name: version(name) for name, pin in locked.items() if version(name).partition("+")[0] != pin}
    assert differing == {}
    check = run_python("-m", "pip", "check")
    assert check.returncode == 0, check.stdout
