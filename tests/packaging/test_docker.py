"""The image files are linted; that they build is not claimed (docker/README.md)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = [pytest.param(name, id=name) for name in ("airflow", "trainer")]


@pytest.mark.parametrize("image", IMAGES)
def test_hadolint_has_no_complaint(image: str, repository: Path) -> None:
    program = Path(sys.executable).with_name("hadolint")
    run = subprocess.run(
        [program, "--failure-threshold", "style", repository / "docker" / f"{image}.Dockerfile"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("image", IMAGES)
def test_image_is_pinned_and_does_not_run_as_root(image: str, repository: Path) -> None:
    text = (repository / "docker" / f"{image}.Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE)
    assert bases
    assert all(re.search(r":\d+\.\d+\.\d+", base) or base in re.findall(r" AS (\S+)", text) for base in bases), bases
    users = re.findall(r"^USER (\S+)", text, flags=re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}


def test_the_readme_says_that_the_images_were_not_built(repository: Path) -> None:
    assert "not been built" in (repository / "docker" / "README.md").read_text()
