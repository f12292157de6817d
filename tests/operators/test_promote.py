"""Evaluation and promotion over a real registry; how good a model is, its folder says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import AssetAlias

from gang_ledgers.sql_engine import open_engine
from model_registry.registry import NewModel
from model_registry.sql import SqlModelRegistry
from operators.evaluate import EvaluateOperator
from operators.params import TrainingParams
from operators.promote import PromoteOperator
from operators.registries import day_end, day_start

# A model's AUC is what its folder's file says; each comparison that is really made leaves a line.
EVALUATES = """
    def measured(option):
        return {"auc": float(Path(given[option][0], "auc").read_text()), "log_loss": 0.5} if option in given else None

    assert len(given["--challenger-digest"][0]) > 8
    with Path(given["--challenger"][0]).parent.joinpath("comparisons-made").open("a") as made:
        made.write("one\\n")
    answer(metrics={
        "challenger": measured("--challenger"), "champion": measured("--champion"), "base_rate": {"rate": 0.2}
    })
"""


@dataclass
class Events:
    """The events of one alias, as Airflow's accessor collects them."""

    added: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def add(self, asset: Any, extra: dict[str, Any] | None = None) -> None:
        self.added.append((asset, extra or {}))


class Lab:
    """Trained models, and runs that evaluate and promote them."""

    def __init__(self, folder: Path, registry: SqlModelRegistry, ti: Any) -> None:
        self.folder = folder
        self.registry = registry
        self.ti = ti

    def trained(self, name: str, auc: float, day: str) -> dict[str, Any]:
        folder = self.folder / name
        folder.mkdir()
        (folder / "auc").write_text(str(auc))
        return {
            "gang_id": f"nightly/{name}/train",
            "submission": 1,
            "recipe": "flights",
            "model_uri": str(folder),
            "model_digest": name * 8,
            "champion": None,
            "run_spec_digest": f"spec of {name}",
            "code_version": "c",
            "data_from": "2013-01-01",
            "data_until": day,
        }

    def data(self, day: str) -> dict[str, Any]:
        return {"day": day, "manifests": {day: f"/data/{day}"}, "digests": {day: f"digest of {day}"}}

    def evaluated(self, model: dict[str, Any], day: str) -> dict[str, Any]:
        operator = EvaluateOperator(task_id="evaluate", model=model, data=self.data(day))
        return operator.execute({"ti": self.ti})

    def promoted(self, report: dict[str, Any], margin: float = 0.002) -> tuple[dict[str, Any], Events]:
        events = Events()
        context: Any = {
            "ti": replace(self.ti, run_id=report["model"]["gang_id"]),
            "params": TrainingParams().model_dump(),
            "outlet_events": {AssetAlias("champion-flights"): events},
        }
        operator = PromoteOperator(task_id="promote", recipe="flights", report=report, margin=str(margin))
        return operator.execute(context), events

    @property
    def comparisons_made(self) -> int:
        path = self.folder / "comparisons-made"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def lab(
    home: Path, ti: Any, tmp_path: Path, a_module: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    monkeypatch.setattr("operators.comparison.EVALUATE", a_module("fake_evaluate", EVALUATES))
    url = f"sqlite:///{home}/registry.db"
    monkeypatch.setattr("gang_controller.wiring.open_registry", lambda: SqlModelRegistry(open_engine(url)))
    registry = SqlModelRegistry(open_engine(url))
    folder = tmp_path / "runs"
    folder.mkdir()
    yield Lab(folder, registry, ti)
    registry.close()


def test_the_first_model_is_promoted_when_it_beats_the_base_rate(lab: Lab) -> None:
    output, events = lab.promoted(lab.evaluated(lab.trained("first", 0.62, "2013-01-10"), "2013-01-10"))
    assert output["promoted"]
    champion = lab.registry.champion("flights")
    assert champion is not None
    assert champion.model.model_id == output["model_id"]
    assert champion.model.facts.seen_until == day_end("2013-01-10")
    assert Path(champion.model.facts.uri, "auc").read_text() == "0.62"
    ((asset, extra),) = events.added
    assert asset.uri == "phalanx://champions/flights"
    assert extra["model_id"] == output["model_id"]


def test_a_model_that_is_no_better_is_registered_only(lab: Lab) -> None:
    lab.promoted(lab.evaluated(lab.trained("first", 0.62, "2013-01-10"), "2013-01-10"))
    report = lab.evaluated(lab.trained("second", 0.621, "2013-01-11"), "2013-01-11")
    assert report["champion_id"] == 1
    output, events = lab.promoted(report)
    assert not output["promoted"]
    assert output["champion_id"] == 1
    assert "margin 0.002" in output["why"]
    assert events.added == []
    assert [model.model_id for model in lab.registry.models("flights")] == [2, 1]


def test_a_run_older_than_the_champion_registers_only_and_is_compared_with_what_was_then(lab: Lab) -> None:
    lab.promoted(lab.evaluated(lab.trained("late", 0.6, "2013-01-16"), "2013-01-16"))
    report = lab.evaluated(lab.trained("early", 0.9, "2013-01-10"), "2013-01-10")
    assert report["champion_id"] is None
    output, events = lab.promoted(report)
    assert not output["promoted"]
    assert "this run is of 2013-01-10" in output["why"]
    assert events.added == []


def test_doing_it_again_compares_nothing_and_moves_nothing(lab: Lab) -> None:
    model = lab.trained("first", 0.62, "2013-01-10")
    lab.promoted(lab.evaluated(model, "2013-01-10"))
    output, events = lab.promoted(lab.evaluated(model, "2013-01-10"))
    assert lab.comparisons_made == 1
    assert not output["promoted"]
    assert "promoted by this run before" in output["why"]
    assert events.added == []
    assert len(lab.registry.history("flights")) == 1


def test_a_rolled_back_model_is_not_promoted_by_doing_its_run_again(lab: Lab) -> None:
    lab.promoted(lab.evaluated(lab.trained("first", 0.62, "2013-01-10"), "2013-01-10"))
    second = lab.trained("second", 0.7, "2013-01-11")
    lab.promoted(lab.evaluated(second, "2013-01-11"))
    lab.registry.roll_back("flights", who="a person", why="it was worse in the field")
    output, _ = lab.promoted(lab.evaluated(second, "2013-01-11"))
    assert not output["promoted"]
    assert output["champion_id"] == 1


def test_a_champion_that_changed_since_the_comparison_is_compared_with_anew(lab: Lab) -> None:
    lab.promoted(lab.evaluated(lab.trained("first", 0.62, "2013-01-10"), "2013-01-10"))
    report = lab.evaluated(lab.trained("third", 0.7, "2013-01-12"), "2013-01-12")
    lab.promoted(lab.evaluated(lab.trained("second", 0.69, "2013-01-11"), "2013-01-11"))
    output, _ = lab.promoted(report, margin=0.05)
    assert not output["promoted"]
    assert "0.6900 of model 2" in output["why"]


def test_what_a_report_holds_is_kept_with_the_model(lab: Lab) -> None:
    report = lab.evaluated(lab.trained("first", 0.62, "2013-01-10"), "2013-01-10")
    lab.promoted(report)
    (model,) = lab.registry.models("flights")
    assert model.facts.metrics == json.loads(Path(report["report"]).read_text())["metrics"]
    assert isinstance(model.facts, NewModel)
    assert model.facts.data_until == day_start("2013-01-10")
