"""What every model registry does."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from model_registry.registry import ChampionMoved, Model, ModelRegistry, NewModel, RegistryError, UnknownModel

DAY = timedelta(days=1)
JANUARY = datetime(2013, 1, 1, tzinfo=UTC)


def a_model(day: int = 10, **fields: Any) -> NewModel:
    """The model of a run that evaluated on January `day`."""
    given: dict[str, Any] = {
        "name": "flights",
        "digest": f"digest-{day}",
        "gang_id": f"nightly/run-{day}/train",
        "dag_id": "nightly",
        "run_id": f"run-{day}",
        "data_from": JANUARY,
        "data_until": JANUARY + (day - 1) * DAY,
        "seen_until": JANUARY + day * DAY,
        "uri": f"/models/{day}",
        "model_digest": f"sha-{day}",
        "code_version": "1",
        "metrics": {"auc": 0.7},
    }
    return NewModel(**(given | fields))


def promote(registry: ModelRegistry, model: Model) -> None:
    present = registry.champion(model.name)
    registry.move_champion(
        model.name,
        model.model_id,
        present.model.model_id if present else None,
        run=model.facts.run_id,
        who="nightly",
        why="better by the margin",
    )


def test_model_comes_back_as_it_was_registered(registry: ModelRegistry) -> None:
    model = registry.register(a_model())
    assert registry.model(model.model_id) == model
    assert model.facts == a_model()
    assert registry.models("flights") == [model]
    assert registry.models("other") == []


def test_registering_twice_is_registering_once(registry: ModelRegistry) -> None:
    first = registry.register(a_model())
    assert registry.register(a_model(uri="/moved")) == first
    assert registry.register(a_model(run_id="another")).model_id != first.model_id
    assert [model.facts.run_id for model in registry.models()] == ["another", "run-10"]


def test_instant_without_a_zone_is_refused(registry: ModelRegistry) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        registry.register(a_model(seen_until=datetime(2013, 1, 1)))  # noqa: DTZ001 - that is the point


def test_unknown_model_is_named_with_what_there_is(registry: ModelRegistry) -> None:
    with pytest.raises(UnknownModel, match="model 7 is not in the registry \\(none is registered\\)"):
        registry.model(7)


def test_first_champion_and_the_next_are_told_with_who_and_why(registry: ModelRegistry) -> None:
    assert registry.champion("flights") is None
    first, second = registry.register(a_model(10)), registry.register(a_model(11))
    promote(registry, first)
    promote(registry, second)
    champion = registry.champion("flights")
    assert champion is not None
    assert (champion.model, champion.version) == (second, 2)
    moves = registry.history("flights")
    assert [(move.from_model, move.to_model, move.run, move.who, move.why) for move in moves] == [
        (None, first.model_id, "run-10", "nightly", "better by the margin"),
        (first.model_id, second.model_id, "run-11", "nightly", "better by the margin"),
    ]


def test_pointer_stays_when_somebody_else_moved_it_first(registry: ModelRegistry) -> None:
    first, second, third = (registry.register(a_model(day)) for day in (10, 11, 12))
    promote(registry, first)
    promote(registry, second)
    with pytest.raises(ChampionMoved) as caught:
        registry.move_champion("flights", third.model_id, first.model_id, run="r", who="me", why="w")
    assert f"it is model {second.model_id}, moved there from model {first.model_id} by nightly (run run-11)" in str(
        caught.value
    )
    champion = registry.champion("flights")
    assert champion is not None
    assert champion.model == second


def test_pointer_stays_when_a_champion_is_there_and_none_was_expected(registry: ModelRegistry) -> None:
    first, second = registry.register(a_model(10)), registry.register(a_model(11))
    promote(registry, first)
    with pytest.raises(ChampionMoved):
        registry.move_champion("flights", second.model_id, None, run="r", who="me", why="w")


def test_move_said_twice_is_made_once(registry: ModelRegistry) -> None:
    first = registry.register(a_model(10))
    for _ in range(2):
        registry.move_champion("flights", first.model_id, None, run="r", who="me", why="w")
    assert len(registry.history("flights")) == 1


def test_champion_bears_its_own_name_only(registry: ModelRegistry) -> None:
    other = registry.register(a_model(name="other"))
    with pytest.raises(UnknownModel, match="is called 'other'"):
        registry.move_champion("flights", other.model_id, None, run="r", who="me", why="w")


def test_one_of_many_wins_when_all_move_at_once(registry: ModelRegistry) -> None:
    models = [registry.register(a_model(day)) for day in range(10, 16)]
    barrier, lost = threading.Barrier(len(models)), []

    def move(model: Model) -> None:
        barrier.wait()
        try:
            registry.move_champion("flights", model.model_id, None, run="r", who="me", why="w")
        except ChampionMoved as error:
            lost.append(error)

    threads = [threading.Thread(target=move, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(lost) == len(models) - 1
    assert len(registry.history("flights")) == 1


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        pytest.param(9, None, id="before all"),
        pytest.param(10, 10, id="the very instant it had seen until"),
        pytest.param(12, 10, id="between two"),
        pytest.param(14, 14, id="the newest"),
        pytest.param(99, 14, id="long after"),
    ],
)
def test_champion_as_of_an_instant_has_seen_nothing_after_it(
    registry: ModelRegistry, day: int, expected: int | None
) -> None:
    for promoted in (10, 14):
        promote(registry, registry.register(a_model(promoted)))
    registry.register(a_model(12))  # never promoted
    found = registry.as_of("flights", JANUARY + day * DAY)
    assert (None if found is None else found.facts.run_id) == (None if expected is None else f"run-{expected}")


def test_roll_back_goes_to_the_champion_before_and_counts_from_then_on(registry: ModelRegistry) -> None:
    first, second, third = (registry.register(a_model(day)) for day in (10, 11, 12))
    for model in (first, second, third):
        promote(registry, model)
    assert registry.roll_back("flights", who="operator", why="drifts").model == second
    assert registry.roll_back("flights", who="operator", why="that too").model == first
    found = registry.as_of("flights", JANUARY + 99 * DAY)
    assert found == first, "what was rolled back is no start for the next training"
    assert registry.roll_back("flights", who="operator", why="fixed", to_model=third.model_id).model == third
    assert [move.to_model for move in registry.history("flights")] == [
        model.model_id for model in (first, second, third, second, first, third)
    ]


def test_roll_back_is_refused_when_there_is_nothing_to_go_back_to(registry: ModelRegistry) -> None:
    with pytest.raises(RegistryError, match="no champion yet"):
        registry.roll_back("flights", who="operator", why="?")
    only = registry.register(a_model(10))
    never = registry.register(a_model(11))
    promote(registry, only)
    with pytest.raises(RegistryError, match=f"one champion only, model {only.model_id}"):
        registry.roll_back("flights", who="operator", why="?")
    with pytest.raises(RegistryError, match=f"to model {never.model_id}"):
        registry.roll_back("flights", who="operator", why="?", to_model=never.model_id)
