"""The way from Airflow's processes to the model registry."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model_registry.registry import ModelRegistry


def registry() -> ModelRegistry:
    """The model registry; its connections end with the task's process."""
    from gang_controller.wiring import open_registry

    return open_registry()


def day_start(day: str) -> datetime:
    """The first moment of a day (UTC)."""
    return datetime.combine(date.fromisoformat(day), time(), tzinfo=UTC)


def day_end(day: str) -> datetime:
    """The first moment of the day after it (UTC)."""
    return day_start(day) + timedelta(days=1)
