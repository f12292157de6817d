from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.training.day_partitions import a_spec
from tests.training.lone_run import run_alone
from training.evaluate import main
from training.recipes.flights_spec import Partition


@dataclass
class Models:
    old: Path
    new: Path


@pytest.fixture(scope="module")
def models(four_days: list[Partition], tmp_path_factory: pytest.TempPathFactory) -> Models:
    """The old one has seen the first day, the new one the first three."""
    folder = tmp_path_factory.mktemp("models")
    run_alone(folder / "old", a_spec(four_days[:1], workers=1))
    run_alone(folder / "new", a_spec(four_days[:3], workers=1, params={"epochs": 6, "learning_rate": 0.01}))
    return Models(folder / "old" / "model", folder / "new" / "model")


def arguments(report: Path, partitions: list[Partition], **models: Path | str) -> list[str]:
    named = [f"--{name.replace('_', '-')}={value}" for name, value in models.items()]
    return [*named, *(f"--manifest={partition.manifest}" for partition in partitions), f"--json-result={report}"]


def test_both_models_and_the_base_rate_are_measured_on_days_they_have_not_seen(
    models: Models, four_days: list[Partition], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    given = arguments(report, four_days[3:], challenger=models.new, champion=models.old)
    assert main(given) == 0
    content: dict[str, Any] = json.loads(report.read_text())
    metrics = content["metrics"]
    assert content["days"] == ["2013-01-04"]
    assert content["samples"] == metrics["challenger"]["samples"] == 200
    assert metrics["challenger"]["auc"] > 0.65
    assert metrics["challenger"]["log_loss"] < metrics["base_rate"]["log_loss"]
    assert sum(each["samples"] for each in metrics["challenger"]["calibration"]) == 200
    assert 0 <= metrics["challenger"]["ece"] <= 1
    assert metrics["champion"].keys() == metrics["challenger"].keys()
    assert "challenger: AUC" in capsys.readouterr().out


def test_there_is_no_champion_in_the_report_when_none_is_named(
    models: Models, four_days: list[Partition], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    assert main(arguments(report, four_days[1:], challenger=models.old)) == 0
    content = json.loads(report.read_text())
    assert content["metrics"]["champion"] is None
    assert content["days"] == ["2013-01-02", "2013-01-03", "2013-01-04"]


@pytest.mark.parametrize("role", ["challenger", "champion"])
def test_a_day_that_a_model_has_seen_is_refused(
    models: Models, four_days: list[Partition], tmp_path: Path, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"challenger": models.old, "champion": models.old} | {role: models.new}
    assert main(arguments(tmp_path / "report.json", four_days[2:], **named)) == 64
    assert f"the {role} (model" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()


def test_a_model_is_refused_when_it_is_not_the_one_that_was_asked_for_or_none(
    models: Models, four_days: list[Partition], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(arguments(report, four_days[3:], challenger=models.new, challenger_digest="0" * 64)) == 65
    assert main(arguments(report, four_days[3:], challenger=tmp_path)) == 65
    assert f"model {tmp_path}: can't be read" in capsys.readouterr().err
    assert not report.exists()


def test_a_wrong_call_is_a_bad_spec(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--challenger", "m"]) == 64
    assert "usage: python -m training.evaluate" in capsys.readouterr().err
