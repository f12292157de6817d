"""How good the flights model is: `python benchmarks/flights_quality.py` prints a line a week, and the mean.

Each day of each week is predicted by models trained on the 28 days before it: the recipe "flights" from scratch; the
same, each night warm-started from the model of the night before (`--warm`); and scikit-learn's logistic regression over
the same columns, window and days: one-hot categories, scaled numbers with missing indicators, with its default C of 1
and with C = 0.1, the best of 1, 0.1, 0.03 and 0.01 on the weeks for which the recipe's defaults were chosen
(`--weeks tuning`). The weeks shown by default are others.

Needs the extras `training`, `spark` (for the source's files) and `dev`. Partitions are made here by pandas, in seconds;
`--data-dir` names the pipelines' instead.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from benchmarks.flights_year import build
from training import exported_model
from training.code_version import code_version
from training.data import SCHEMA, read_flights
from training.loop import Run
from training.metrics import auc, log_loss
from training.partitions import refer
from training.recipes.flights_spec import FlightsParams, FlightsSpec, ModelReference, Partition
from training.stop_request import StopRequest
from training.world import World

WINDOW_DAYS = 28
WEEKS = {
    "tuning": ("02-05", "03-19", "04-30", "06-11", "07-23", "09-03", "10-15", "11-26"),
    "reported": ("02-26", "04-09", "05-21", "07-02", "08-13", "09-24", "11-05", "12-17"),
}
CATEGORIES = ["carrier", "flight", "tailnum", "origin", "dest"]
Floats = npt.NDArray[np.float64]
Predict = Callable[[list[Partition], pa.Table, date], Floats]


@dataclass
class Ours:
    """The recipe, run as a lone process; `is_warm` starts each night from the night before."""

    scratch: Path
    params: FlightsParams
    is_warm: bool = False
    last: ModelReference | None = None
    nights: int = 0

    def __call__(self, window: list[Partition], flights: pa.Table, day: date) -> Floats:
        """Train on the window and predict."""
        self.nights += 1
        run_dir = self.scratch / f"{'warm' if self.is_warm else 'cold'}-{self.nights}"
        run_dir.mkdir()
        spec = FlightsSpec(
            partitions=tuple(window),
            data_until=day,
            workers=1,
            checkpoint_every_steps=10**6,
            warm_start=self.last if self.is_warm else None,
            code_version=code_version(),
            params=self.params,
        )
        world = World.from_env({}, run_dir / "run_spec.json")
        with contextlib.redirect_stdout(io.StringIO()):
            Run(world, spec, StopRequest(), None).go()
        result = json.loads((run_dir / "result.json").read_text())
        self.last = ModelReference(model_id="last", path=result["model_dir"], digest=result["model_digest"])
        model = exported_model.load(run_dir / "model")
        return model.predict(model.card.encoder.encode(flights))


@dataclass
class LogisticRegression:
    """scikit-learn's, over the same columns; `c` is the inverse of its regularisation."""

    c: float
    numbers: list[str] = field(default_factory=lambda: [n for n in SCHEMA.names if n not in (*CATEGORIES, "late")])

    def __call__(self, window: list[Partition], flights: pa.Table, day: date) -> Floats:  # noqa: ARG002 - a Predict
        """Fit on the window and predict."""
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.linear_model import LogisticRegression as Fitted
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        scaled = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
        inputs = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), CATEGORIES), (scaled, self.numbers))
        model = make_pipeline(inputs, Fitted(C=self.c, max_iter=2000))
        seen = self._frame(read_flights(window))
        model.fit(seen, seen["late"])
        predicted: Floats = model.predict_proba(self._frame(flights))[:, 1]
        return predicted

    def _frame(self, table: pa.Table) -> pd.DataFrame:
        frame = table.to_pandas()
        frame["tailnum"] = frame["tailnum"].fillna("")
        return frame.astype(dict.fromkeys(self.numbers, float))


def base_rate(window: list[Partition], flights: pa.Table, day: date) -> Floats:  # noqa: ARG001 - a Predict
    """The window's rate, for every flight."""
    return np.full(len(flights), read_flights(window)["late"].to_numpy().mean())


def main(arguments: Sequence[str]) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", choices=WEEKS, default="reported")
    parser.add_argument("--days", type=int, default=7, help="days of each week that are predicted")
    parser.add_argument("--data-dir", type=Path, help="the pipelines' partitions of 2013")
    parser.add_argument("--params", type=json.loads, default={}, help="the recipe's parameters, JSON")
    parser.add_argument("--warm", action="store_true", help="also warm-start every night from the one before")
    parser.add_argument(
        "--c", type=float, nargs="*", default=[1.0, 0.1], help="of logistic regression; none: leave it out"
    )
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="flights-quality-") as folder:
        data_dir = given.data_dir or Path(folder) / "data"
        if given.data_dir is None:
            build(data_dir)
        params = FlightsParams(**given.params)
        predictors: dict[str, Predict] = {"base rate": base_rate}
        predictors |= {f"LR C={c:g}": LogisticRegression(c) for c in given.c}
        predictors["ours"] = Ours(Path(folder), params)
        if given.warm:
            predictors["ours, warm"] = Ours(Path(folder), params, is_warm=True)
        show(compare(data_dir, WEEKS[given.weeks], given.days, predictors))


def compare(data_dir: Path, weeks: Sequence[str], days: int, predictors: dict[str, Predict]) -> pd.DataFrame:
    """AUC and log loss of each predictor on each day; the mean over a week is the mean over its days."""
    found = []
    for week in weeks:
        for number in range(days):
            day = date.fromisoformat(f"2013-{week}") + timedelta(days=number)
            window = [refer(_manifest(data_dir, day - timedelta(days=back))) for back in range(WINDOW_DAYS, 0, -1)]
            flights = read_flights([refer(_manifest(data_dir, day))])
            late = flights["late"].to_numpy().astype(float)
            for name, predict in predictors.items():
                predicted = predict(window, flights, day)
                measured = {"AUC": auc(late, predicted), "log loss": log_loss(late, predicted)}
                found.append({"week of": f"2013-{week}", "model": name, **measured})
            print(f"\r{day}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return pd.DataFrame(found)


def show(found: pd.DataFrame) -> None:
    """Print a table per measure: weeks down, models across."""
    for measure in ("AUC", "log loss"):
        table = found.pivot_table(index="week of", columns="model", values=measure, sort=False)
        table.loc["mean"] = table.mean()
        print(f"\n{measure}\n{table.round(4).to_string()}")


def _manifest(data_dir: Path, day: date) -> Path:
    return data_dir / "flights" / f"day={day}" / "manifest.json"


if __name__ == "__main__":
    main(sys.argv[1:])
