"""A stack of one's own for each test file that asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from embedded_stack.state_folder import StateFolder
from tests.embedded_stack.phalanx import TINY_DAGS, Phalanx


@pytest.fixture(scope="module")
def phalanx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phalanx]:
    root = tmp_path_factory.mktemp("stack")
    for name in ("user", "dags", "plugins"):
        (root / name).mkdir()
    (root / "dags" / "tiny.py").write_text(TINY_DAGS)
    made = Phalanx(StateFolder.at(root / "home"), root / "user", root / "dags", root / "plugins")
    yield made
    made("down", "--grace", "5")
    left = made.alive()
    for pid in left:
        os.kill(pid, 9)
    assert left == []
