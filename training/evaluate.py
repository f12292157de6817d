"""`python -m training.evaluate EVAL_SPEC.json REPORT.json`: two models and the base rate, on days that none has seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from pydantic import Field

from training import exported_model
from training.data import read_flights
from training.exit_codes import BadData, BadSpec, ExitCode, TrainingEnd
from training.exported_model import ExportedModel
from training.files import write_json
from training.metrics import auc, calibration, expected_calibration_error, log_loss
from training.run_spec import Partition, Sha256, SpecModel, load_as


class EvaluatedModel(SpecModel):
    """A model to evaluate: its folder and its digest."""

    path: str
    digest: Sha256
    model_id: str = ""


class EvaluationSpec(SpecModel):
    """What to compare, and on which days."""

    schema_version: Literal[1] = 1
    challenger: EvaluatedModel
    champion: EvaluatedModel | None = None
    partitions: tuple[Partition, ...] = Field(min_length=1)


def evaluate(spec: EvaluationSpec) -> dict[str, Any]:
    """The report: the same measures for challenger and champion, and the log loss of the base rate.

    The base rate is that of the challenger's training window: what one would predict knowing nothing of a flight.

    Raises:
        BadSpec: a model has seen one of the days.
        BadData: a model or a partition isn't what it should be, or the days hold no flights.
    """
    challenger = _load(spec.challenger, spec)
    champion = _load(spec.champion, spec) if spec.champion else None
    flights = read_flights(spec.partitions)
    days = [partition.date.isoformat() for partition in spec.partitions]
    if not len(flights):
        raise BadData(
            f"evaluation: {', '.join(days)}: no flights in these partitions. Evaluate on days that have some."
        )
    late = flights["late"].to_numpy().astype(np.float64)
    rate = challenger.card.late_rate
    return {
        "schema_version": 1,
        "challenger": _measured(challenger, flights),
        "champion": _measured(champion, flights) if champion else None,
        "base_rate": {
            "rate": rate,
            "log_loss": log_loss(late, np.full(len(late), rate)),
            "observed": float(late.mean()),
        },
        "days": days,
        "samples": len(flights),
    }


def _load(named: EvaluatedModel, spec: EvaluationSpec) -> ExportedModel:
    model = exported_model.load(Path(named.path), named.digest)
    first = min(partition.date for partition in spec.partitions)
    if first < model.card.data_until:
        raise BadSpec(
            f"evaluation spec: partition {first} is asked for, but model {named.path} has seen days until "
            f"{model.card.data_until} (exclusive; model.json, data_until). Evaluate on later days, or an older model."
        )
    return model


def _measured(model: ExportedModel, flights: pa.Table) -> dict[str, Any]:
    features = model.card.encoder.encode(flights)
    predicted = model.predict(features)
    bins = calibration(features.late, predicted)
    return {
        "auc": auc(features.late, predicted),
        "log_loss": log_loss(features.late, predicted),
        "ece": expected_calibration_error(bins),
        "calibration": bins,
        "samples": len(features),
        "data_until": model.card.data_until.isoformat(),
    }


def main(arguments: list[str]) -> int:
    """Evaluate what the spec says; returns the exit code. A report is whole, or there is none."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m training.evaluate EVAL_SPEC.json REPORT.json\n")
        return ExitCode.BAD_SPEC
    spec_path, report_path = map(Path, arguments)
    torch.set_num_threads(1)
    try:
        report = evaluate(load_as(EvaluationSpec, spec_path, "evaluation spec"))
        report_path.parent.mkdir(parents=True, exist_ok=True)
        write_json(report_path, report)
    except TrainingEnd as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the exit code says that it is the program's
        sys.excepthook(type(error), error, error.__traceback__)
        return ExitCode.PROGRAM_ERROR
    sys.stdout.write(_summary(report))
    return ExitCode.DONE


def _summary(report: dict[str, Any]) -> str:
    lines = [f"evaluated on {', '.join(report['days'])}: {report['samples']} flights"]
    for name in ("challenger", "champion"):
        if measured := report[name]:
            ranking = "not defined" if measured["auc"] is None else f"{measured['auc']:.4f}"
            lines.append(f"{name}: AUC {ranking}  log loss {measured['log_loss']:.4f}  ECE {measured['ece']:.4f}")
    lines.append(f"base rate: log loss {report['base_rate']['log_loss']:.4f}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
