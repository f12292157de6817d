"""What an evaluation refuses, with `training.evaluate` itself: a model that isn't the one that was trained."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from model_registry.registry import Model, NewModel
from operators.comparison import ComparingOperator
from tests.training.day_partitions import a_spec, write_days
from tests.training.lone_run import run_alone
from training.recipes.flights_spec import Partition


@dataclass
class Trained:
    """A model folder and what the training said of it."""

    folder: Path
    digest: str


@dataclass
class Bench:
    """A challenger, a champion and the day that neither has seen."""

    challenger: Trained
    champion: Trained
    day: Partition

    def compare(self) -> dict[str, Any]:
        """Compare as the operators do."""
        day = self.day.date.isoformat()
        operator = ComparingOperator(task_id="compare")
        return operator.compare(
            {
                "recipe": "flights",
                "model_uri": str(self.challenger.folder),
                "model_digest": self.challenger.digest,
            },
            {"day": day, "manifests": {day: self.day.manifest}, "digests": {day: self.day.digest}},
            self._registered(self.champion),
        )

    @staticmethod
    def _registered(trained: Trained) -> Model:
        then = datetime(2013, 1, 1, tzinfo=UTC)
        where = (str(trained.folder), trained.digest, "code")
        return Model(7, NewModel("flights", "d", "gang", "dag", "run", then, then, then, *where), then)


def train(run_dir: Path, days: list[Partition]) -> Trained:
    run_alone(run_dir, a_spec(days, workers=1, params={"epochs": 1}))
    result = json.loads((run_dir / "result.json").read_text())
    return Trained(Path(result["model_dir"]), result["model_digest"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Models that no test changes."""
    folder = tmp_path_factory.mktemp("trained")
    days = write_days(folder / "data", 3)
    return Bench(train(folder / "challenger", days[:2]), train(folder / "champion", days[:1]), days[2])


@pytest.fixture
def bench(home: Path, trained: Bench, tmp_path: Path) -> Bench:
    """The same with copies of the models, to be changed."""

    def copied(role: str, model: Trained) -> Trained:
        return replace(model, folder=Path(shutil.copytree(model.folder, tmp_path / role)))

    return Bench(copied("challenger", trained.challenger), copied("champion", trained.champion), trained.day)


def test_models_that_are_what_they_are_called_are_compared(bench: Bench) -> None:
    metrics = ComparingOperator.read_metrics(bench.compare()["report"])
    assert 0 < metrics["challenger"]["auc"] < 1
    assert 0 < metrics["champion"]["auc"] < 1


@pytest.mark.parametrize("role", ["challenger", "champion"])
def test_a_model_whose_file_has_changed_since_its_training_is_refused(bench: Bench, home: Path, role: str) -> None:
    weights = getattr(bench, role).folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(AirflowFailException, match=rf"its data are bad.*model file {weights}: sha256 .*, expected"):
        bench.compare()
    assert list(home.rglob("comparisons/*")) == []


@pytest.mark.parametrize("role", ["challenger", "champion"])
def test_another_model_in_the_folder_is_refused_though_it_is_whole(bench: Bench, home: Path, role: str) -> None:
    asked = getattr(bench, role)
    setattr(bench, role, replace(asked, digest="0" * 64))
    with pytest.raises(AirflowFailException, match=rf"model {asked.folder}: its digest is .*, asked for is 0{{64}}"):
        bench.compare()
    assert list(home.rglob("comparisons/*")) == []
