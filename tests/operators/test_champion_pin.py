from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from gang_scheduler.gang_state import GangState
from operators.champion_pin import pinned_champion

OLD, NEW = {"model_id": "1"}, {"model_id": "2"}


class Store:
    """Airflow's task state store as far as it is used: values that survive retries and clears."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any, *, retention: object = None) -> None:
        assert value is not None
        assert retention is NEVER_EXPIRE
        self.values[key] = value


@pytest.mark.parametrize(
    ("generation", "asked_with", "state", "expected"),
    [
        pytest.param(5, "up-1", GangState.RUNNING, OLD, id="a retry"),
        pytest.param(5, "up-1", GangState.SUCCEEDED, OLD, id="a retry after the gang's success"),
        pytest.param(11, "up-1", GangState.SUCCEEDED, NEW, id="this task cleared after success"),
        pytest.param(11, "up-2", GangState.SUCCEEDED, OLD, id="the whole run cleared"),
        pytest.param(11, "up-1", GangState.FAILED, OLD, id="this task cleared after failure"),
        pytest.param(11, "up-1", GangState.RUNNING, OLD, id="this task cleared while it ran"),
        pytest.param(11, "up-1", GangState.INTERRUPTED, OLD, id="this task cleared after an interruption"),
    ],
)
def test_which_champion_a_run_starts_from(
    generation: int, asked_with: str, state: GangState, expected: dict[str, str]
) -> None:
    store = Store()
    assert pinned_champion(store, 5, "up-1", None, lambda: OLD) == OLD
    assert pinned_champion(store, generation, asked_with, state, lambda: NEW) == expected


def test_that_there_was_none_is_kept_as_well() -> None:
    store = Store()
    assert pinned_champion(store, 5, "up-1", None, lambda: None) is None
    assert pinned_champion(store, 5, "up-1", GangState.FAILED, lambda: NEW) is None
