from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from model_registry.registry import Champion, ChampionMove, Model, NewModel
from operators.promotion import decide


def day(number: int) -> datetime:
    return datetime(2013, 1, number, tzinfo=UTC)


def a_model(model_id: int, seen_until: datetime) -> Model:
    facts = NewModel("flights", "d", "g", "dag", "run", day(1), day(9), seen_until, "/m", "w", "c")
    return Model(model_id, facts, day(20))


def a_champion(model_id: int, seen_until: datetime) -> Champion:
    return Champion("flights", a_model(model_id, seen_until), version=1)


def a_move(to_model: int, run: str) -> ChampionMove:
    return ChampionMove(4, "flights", None, to_model, day(20), run, "airflow", "better")


def decided(**changes: Any) -> Any:
    """The decision on model 7, compared on 10 January with model 3, which is the champion and less good."""
    given: dict[str, Any] = {
        "model_id": 7,
        "run": "dag/run-7",
        "day_begins": day(10),
        "margin": 0.002,
        "production": a_champion(3, day(10)),
        "moves": [a_move(3, "dag/run-3")],
        "compared_with": 3,
        "metrics": {"challenger": {"auc": 0.70}, "champion": {"auc": 0.69}},
    }
    return decide(**given | changes)


def test_a_better_model_becomes_the_champion_with_its_reason() -> None:
    decision = decided()
    assert decision.moves
    assert decision.sentence == ("model 7 is better: AUC 0.7000 against 0.6900 of model 3: +0.0100, margin 0.002")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"margin": 0.02}, "registered only: AUC 0.7000 against 0.6900", id="not better by the margin"),
        pytest.param(
            {"production": a_champion(9, day(11)), "compared_with": 3},
            "the production champion, model 9, has seen data until 2013-01-11, this run is of 2013-01-10",
            id="older than the production champion",
        ),
        pytest.param(
            {"production": None, "compared_with": None, "metrics": {"challenger": {"auc": 0.501}, "champion": None}},
            "against 0.5000 of the base rate",
            id="the first, no better than the base rate",
        ),
        pytest.param(
            {"metrics": {"challenger": {"auc": None}, "champion": {"auc": None}}}, "AUC has no meaning", id="one class"
        ),
        pytest.param(
            {"production": a_champion(7, day(11)), "moves": [a_move(7, "dag/run-7")]},
            "promoted by this run before .move 4.; it is the champion",
            id="promoted before",
        ),
        pytest.param(
            {"production": a_champion(3, day(10)), "moves": [a_move(7, "dag/run-7"), a_move(3, "phalanx")]},
            "promoted by this run before .move 4.; it was replaced since",
            id="promoted before and rolled back since",
        ),
    ],
)
def test_the_pointer_stays_with_a_reason(changes: dict[str, Any], said: str) -> None:
    decision = decided(**changes)
    assert not decision.moves
    assert decision.is_comparable
    assert re.search(said, decision.sentence)


def test_the_first_model_is_promoted_when_it_beats_the_base_rate() -> None:
    first: dict[str, Any] = {"production": None, "moves": [], "compared_with": None}
    assert decided(**first, metrics={"challenger": {"auc": 0.503}, "champion": None}).moves


@pytest.mark.parametrize("compared_with", [None, 2])
def test_a_comparison_with_another_than_the_champion_decides_nothing(compared_with: int | None) -> None:
    decision = decided(compared_with=compared_with)
    assert not decision.moves
    assert not decision.is_comparable
