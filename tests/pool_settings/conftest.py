"""What the settings' tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool_settings import Settings, read_file


@pytest.fixture(scope="session")
def example_file(repository: Path) -> Path:
    """The example that the reference explains."""
    return repository / "docs" / "examples" / "pools.toml"


@pytest.fixture(scope="session")
def example(example_file: Path) -> Settings:
    return read_file(example_file)
