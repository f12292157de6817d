"""The way from Airflow's processes to the model registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model_registry.registry import ModelRegistry


@contextmanager
def using_registry() -> Iterator[ModelRegistry]:
    """The registry for a few calls."""
    from gang_controller.wiring import open_registry

    registry = open_registry()
    try:
        yield registry
    finally:
        registry.close()


def day_end(day: str) -> datetime:
    """The first moment of the day after it."""
    return day_start(day) + timedelta(days=1)


def day_start(day: str) -> datetime:
    """The first moment of a day (UTC): what a model may have seen to be compared on that day."""
    return datetime.combine(date.fromisoformat(day), time(), tzinfo=UTC)
