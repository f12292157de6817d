"""What the operator tests share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

Eventually = Callable[..., None]


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Waits until a condition holds; fails with what was waited for when the deadline is over."""

    def wait(condition: Callable[[], object], what: str, within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not so within {within_s} s"
            time.sleep(0.02)

    return wait
