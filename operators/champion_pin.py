"""Which champion a run starts from, decided once and kept, so that doing the run again is doing the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk.execution_time.context import NEVER_EXPIRE

from gang_scheduler.gang_state import GangState

KEY = "champion"


def keeps_pin(pin: Mapping[str, Any], generation: int, asked_with: str, last_state: GangState | None) -> bool:
    """Whether the champion that was chosen before still holds.

    It does for every retry, for a gang that resumes, and when the whole run is done again (its upstream work was then
    asked for anew). It doesn't when a person clears this one task after a success: that asks for a new training.

    Args:
        pin: what was kept.
        generation: grows when a person clears the task.
        asked_with: which execution of the upstream work this one follows.
        last_state: of the newest submission of the task's gang; None if there is none.
    """
    was_cleared = generation != pin["generation"]
    whole_run_was_cleared = asked_with != pin["asked_with"]
    return not was_cleared or whole_run_was_cleared or last_state is not GangState.SUCCEEDED


def pinned_champion(
    store: Any,
    generation: int,
    asked_with: str,
    last_state: GangState | None,
    resolve: Callable[[], Mapping[str, Any] | None],
) -> Mapping[str, Any] | None:
    """The champion to start from (None: there is none), from the task's state store or by `resolve`.

    The store outlives retries and clears; the pin is written before the gang is asked for.
    """
    pin = store.get(KEY)
    if isinstance(pin, Mapping) and keeps_pin(pin, generation, asked_with, last_state):
        champion: Mapping[str, Any] | None = pin["champion"]
    else:
        champion = resolve()
    store.set(
        KEY,
        {"champion": champion, "generation": generation, "asked_with": asked_with},
        retention=NEVER_EXPIRE,
    )
    return champion
