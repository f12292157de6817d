"""EvaluateOperator: challenger and champion on the interval's own day, which neither has seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Context

from operators.comparison import ComparingOperator
from operators.registries import day_start, registry


class EvaluateOperator(ComparingOperator):
    """Measures AUC, log loss and calibration of the new model, of the champion as of the interval and of the base rate.

    A comparison that was made before, of the same models on the same partitions, is read instead of made again.

    Returns the report's place, and what `PromoteOperator` needs to compare again should the champion change.

    Args:
        model: what `TrainOperator` returned.
        data: what `SparkPreprocessOperator` returned.
    """

    template_fields: Collection[str] = ("model", "data")
    ui_color = "#d3dff0"

    def __init__(self, *, model: Any, data: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.data = data

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Compare, or read the comparison."""
        champion = registry().as_of(self.model["recipe"], day_start(self.data["day"]))
        against = f"model {champion.model_id}, the champion as of that day" if champion else "the base rate alone"
        self.log.info("%s", f"comparing on {self.data['day']} with {against}")
        compared = self.compare(self.model, self.data, champion)
        for who, metrics in self.read_metrics(compared["report"]).items():
            self.log.info("%s", f"{who}: {_listed(metrics)}")
        return compared


def _listed(metrics: Mapping[str, Any] | None) -> str:
    if not metrics:
        return "none"
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if isinstance(value, float))
