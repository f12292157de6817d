"""How many cases hypothesis tries: hundreds, the same in each run of the tests; thousands, new ones, when slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW, MANY = 250, 4000
EFFORT = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]


def try_all(check: Callable[..., None], cases: int, *strategies: st.SearchStrategy[Any]) -> None:
    """Run the check on so many cases."""
    effort = settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=cases <= FEW,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    effort(given(*strategies)(check))()
