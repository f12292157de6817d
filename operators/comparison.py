"""Compares models on days that they haven't seen, each comparison once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model_registry.registry import Model
from operators import places
from operators.batch import BatchOperator

EVALUATE = "training.evaluate"
SCHEMA_VERSION = 1


def comparison_digest(challenger: str, champion: str, partitions: Sequence[str]) -> str:
    """Names a comparison by the digests of both models ("" for no champion) and of the partitions."""
    return hashlib.sha256(json.dumps([SCHEMA_VERSION, challenger, champion, list(partitions)]).encode()).hexdigest()


class ComparingOperator(BatchOperator):
    """Base of the tasks that compare a new model with a champion."""

    def compare(self, model: Mapping[str, Any], data: Mapping[str, Any], champion: Model | None) -> dict[str, Any]:
        """Measure both on the interval's day, or read the report of the same comparison made before.

        Args:
            model: what `TrainOperator` returned.
            data: what `SparkPreprocessOperator` returned.
            champion: None: with the base rate only.
        """
        day = data["day"]
        digest = comparison_digest(
            model["model_digest"], champion.facts.model_digest if champion else "", [data["digests"][day]]
        )
        report = places.models_dir() / model["recipe"] / "comparisons" / f"{digest}.json"
        if report.is_file():
            self.log.info("%s", f"the same models were compared on the same data before: {report}")
        else:
            rival = ["--champion", champion.facts.uri] if champion else []
            found = self.run_job(
                EVALUATE, "--challenger", model["model_uri"], *rival, "--manifest", data["manifests"][day]
            )
            self._keep(report, found)
        return {
            "report": str(report),
            "comparison_digest": digest,
            "day": day,
            "champion_id": champion.model_id if champion else None,
            "model": dict(model),
            "data": {"day": day, "manifests": {day: data["manifests"][day]}, "digests": {day: data["digests"][day]}},
        }

    @staticmethod
    def read_report(report: str) -> dict[str, Any]:
        """The comparison at that place."""
        found: dict[str, Any] = json.loads(Path(report).read_text())
        return found

    @staticmethod
    def _keep(report: Path, found: Mapping[str, Any]) -> None:
        report.parent.mkdir(parents=True, exist_ok=True)
        partial = report.with_name(f".{report.name}.{os.getpid()}")
        partial.write_text(json.dumps(found, indent=1))
        partial.replace(report)
