"""Days of made-up flights to train on, and torchrun itself to train with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.day_partitions import write_days
from training.recipes.flights_spec import Partition


@pytest.fixture(scope="session")
def four_days(tmp_path_factory: pytest.TempPathFactory) -> list[Partition]:
    """Partitions that no test changes."""
    return write_days(tmp_path_factory.mktemp("data"), 4)


@pytest.fixture
def own_days(tmp_path: Path) -> list[Partition]:
    """Partitions that the test may damage."""
    return write_days(tmp_path / "data", 3)
