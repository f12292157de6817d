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
            arguments = ["--challenger", model["model_uri"], "--challenger-digest", model["model_digest"]]
            if champion is not None:
                arguments += ["--champion", champion.facts.uri, "--champion-digest", champion.facts.model_digest]
            _write(report, self.run_job(EVALUATE, *arguments, "--manifest", data["manifests"][day]))
        return {
            "report": str(report),
            "comparison_digest": digest,
            "day": day,
            "champion_id": champion.model_id if champion else None,
            "model": dict(model),
            "data": {"day": day, "manifests": {day: data["manifests"][day]}, "digests": {day: data["digests"][day]}},
        }

    @staticmethod
    def read_metrics(report: str) -> dict[str, Any]:
        """What was measured of `challenger`, `champion` (None if there was none) and `base_rate`."""
        found: dict[str, Any] = json.loads(Path(report).read_text())["metrics"]
        return found


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON that a reader sees whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(content, indent=1))
    partial.replace(path)
