"""Two models and the base rate, measured on days that neither model has seen.

`python -m training.evaluate --challenger MODEL_DIR [--champion MODEL_DIR] --manifest FILE... --json-result REPORT`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import torch

from training import exported_model
from training.data import read_flights
from training.exit_codes import BadData, BadSpec, ExitCode, TrainingEnd
from training.exported_model import ExportedModel
from training.files import write_json
from training.metrics import auc, calibration, expected_calibration_error, log_loss
from training.partitions import refer
from training.recipes.flights_spec import Partition

SCHEMA_VERSION = 1


def evaluate(
    challenger: ExportedModel, champion: ExportedModel | None, partitions: Sequence[Partition]
) -> dict[str, Any]:
    """The report: the same measures for challenger and champion, and the log loss of the base rate.

    The base rate is that of the challenger's training window: what one would predict knowing nothing of a flight.

    Raises:
        BadSpec: a model has seen one of the days.
        BadData: a partition isn't what its manifest says, or the days hold no flights.
    """
    days = [partition.date.isoformat() for partition in partitions]
    for role, model in (("challenger", challenger), ("champion", champion)):
        if model is not None and min(days) < model.card.data_until.isoformat():
            raise BadSpec(
                f"evaluation: partition {min(days)} was asked for, but the {role} (model {model.digest[:12]}) has seen "
                f"days until {model.card.data_until} (exclusive; data_until in its model.json). Evaluate on "
                "later days, or an older model."
            )
    flights = read_flights(partitions)
    if not len(flights):
        raise BadData(f"evaluation: {', '.join(days)}: no flights there. Evaluate on days that have some.")
    late = flights["late"].to_numpy().astype(np.float64)
    rate = challenger.card.late_rate
    guess = {"rate": rate, "auc": 0.5, "log_loss": log_loss(late, np.full(len(late), rate))}
    return {
        "schema_version": SCHEMA_VERSION,
        "days": days,
        "samples": len(flights),
        "observed_rate": float(late.mean()),
        "metrics": {
            "challenger": _measured(challenger, flights),
            "champion": _measured(champion, flights) if champion else None,
            "base_rate": guess,
        },
    }


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


class _Arguments(argparse.ArgumentParser):
    """Ends a misuse as the contract says, not with argparse's 2."""

    def error(self, message: str) -> NoReturn:
        raise BadSpec(f"evaluation: {message}.\n{self.format_usage().strip()}")


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Arguments(prog="python -m training.evaluate", description=__doc__.partition("\n")[0])
    for role in ("challenger", "champion"):
        is_needed = role == "challenger"
        parser.add_argument(
            f"--{role}", type=Path, required=is_needed, metavar="MODEL_DIR", help=f"the {role}'s folder"
        )
        parser.add_argument(f"--{role}-digest", metavar="SHA256", help="refuse the model if this isn't its digest")
    parser.add_argument(
        "--manifest", type=Path, action="append", required=True, metavar="FILE", help="of a day's partition; repeatable"
    )
    parser.add_argument("--json-result", type=Path, required=True, metavar="REPORT", help="where the report goes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Evaluate what the arguments say; returns the exit code. A report is whole, or there is none."""
    torch.set_num_threads(1)
    try:
        given = _parsed(arguments)
        challenger = exported_model.load(given.challenger, given.challenger_digest)
        champion = exported_model.load(given.champion, given.champion_digest) if given.champion else None
        report = evaluate(challenger, champion, [refer(manifest) for manifest in given.manifest])
        write_json(given.json_result, report)
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
        if measured := report["metrics"][name]:
            ranking = "not defined" if measured["auc"] is None else f"{measured['auc']:.4f}"
            lines.append(f"{name}: AUC {ranking}  log loss {measured['log_loss']:.4f}  ECE {measured['ece']:.4f}")
    lines.append(f"base rate: log loss {report['metrics']['base_rate']['log_loss']:.4f}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
