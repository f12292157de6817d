"""What Airflow's provider manager is told of this package."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's name and the links that its operators show on a task."""
    return {
        "package-name": "phalanx",
        "name": "Phalanx",
        "description": "Gang-scheduled, fault-surviving distributed training.",
        "extra-links": ["operators.validate.QualityReportLink"],
    }
