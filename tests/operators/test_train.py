"""The RunSpec that a training task asks for, and what it says of the model that comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from gang_ledgers.ledger import GangRecord
from gang_scheduler.gang_state import GangState
from model_registry.registry import Model, NewModel
from operators.params import TrainingParams
from operators.train import TrainOperator
from training.recipes.flights_spec import FlightsSpec


def day(number: int) -> datetime:
    return datetime(2013, 1, number, tzinfo=UTC)


def a_model(model_id: int, seen_until: datetime, digest: str) -> Model:
    facts = NewModel("flights", "d", "g", "dag", "run", day(1), day(4), seen_until, f"/m/{model_id}", digest, "c")
    return Model(model_id, facts, day(20))


@dataclass
class Registry:
    """Promoted models, as the registry finds them; and the gang ledger's newest submission."""

    promoted: list[Model] = field(default_factory=list)
    last: GangRecord | None = None

    def as_of(self, name: str, instant: datetime) -> Model | None:
        found = [model for model in self.promoted if model.name == name and model.facts.seen_until <= instant]
        return found[-1] if found else None

    def state(self, gang_id: str) -> GangRecord | None:
        assert gang_id.endswith("/task")
        return self.last

    def close(self) -> None:
        pass


@dataclass
class Store:
    """The task's state store."""

    values: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any, *, retention: object = None) -> None:
        assert retention is not None
        self.values[key] = value


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    monkeypatch.setattr("gang_controller.wiring.open_registry", lambda: found)
    monkeypatch.setattr("gang_controller.wiring.open_controller", lambda: found)
    return found


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    days = ["2013-01-02", "2013-01-03", "2013-01-04"]
    return {
        "day": days[-1],
        "window": days[:-1],
        "manifests": {name: str(tmp_path / f"{name}.json") for name in days},
        "digests": dict.fromkeys(days, "d" * 64),
        "asked_with": "upstream-1",
    }


def a_context(ti: Any, store: Store | None = None, **params: Any) -> Any:
    return {"ti": ti, "params": TrainingParams(**params).model_dump(), "task_state_store": store or Store()}


def spec_of(data: dict[str, Any], context: Any, **changes: Any) -> FlightsSpec:
    operator = TrainOperator(**{"task_id": "task", "recipe": "flights", "data": data, "workers": "2"} | changes)
    work = operator.work(context)
    assert work.asked_with == data["asked_with"]
    spec = FlightsSpec.model_validate_json(work.run_spec_json)
    assert spec.digest() == work.digest
    return spec


def test_it_trains_on_the_window_and_never_on_the_interval_s_day(registry: Registry, ti: Any, data: Any) -> None:
    spec = spec_of(data, a_context(ti, epochs=2, seed=5, checkpoint_every_steps=9))
    assert [str(partition.date) for partition in spec.partitions] == data["window"]
    assert str(spec.data_until) == data["day"]
    assert (spec.params.epochs, spec.seed, spec.checkpoint_every_steps, spec.workers) == (2, 5, 9, 2)
    assert spec.warm_start is None


def test_it_starts_from_the_champion_as_of_the_interval(registry: Registry, ti: Any, data: Any) -> None:
    registry.promoted = [a_model(1, day(3), "a" * 64), a_model(2, day(4), "b" * 64), a_model(3, day(5), "c" * 64)]
    warm_start = spec_of(data, a_context(ti)).warm_start
    assert warm_start is not None
    assert (warm_start.model_id, warm_start.path, warm_start.digest) == ("2", "/m/2", "b" * 64)
    assert spec_of(data, a_context(ti), warm_start=False).warm_start is None


def test_a_retry_asks_for_the_same_though_the_champion_has_changed(registry: Registry, ti: Any, data: Any) -> None:
    store = Store()
    first = spec_of(data, a_context(ti, store))
    registry.promoted = [a_model(1, day(3), "a" * 64)]
    assert spec_of(data, a_context(ti.retried(), store)).digest() == first.digest()
    again = data | {"asked_with": "upstream-2"}  # the whole run was cleared
    assert spec_of(again, a_context(ti.cleared(), store)).digest() == first.digest()


def test_parameters_that_do_not_agree_are_refused_with_the_rule(registry: Registry, ti: Any, data: Any) -> None:
    with pytest.raises(AirflowFailException, match="global_batch_size = 8 leaves some of workers = 9 without"):
        spec_of(data, a_context(ti, global_batch_size=8), workers=9)


def a_result(model_dir: Path) -> dict[str, str]:
    return {"model_dir": str(model_dir), "model_digest": "w" * 64}


def a_model_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def outcome_of(operator: TrainOperator, context: Any, result: dict[str, str]) -> dict[str, Any]:
    request, claim = operator._request(context)
    gang_id = request.gang_id
    return operator.outcome(
        GangRecord(gang_id, 3, 1, GangState.SUCCEEDED, request, "/runs", claim.owner, day(20), result=result), context
    )


def test_what_it_returns_is_ids_and_places(registry: Registry, ti: Any, data: Any, home: Path) -> None:
    registry.promoted = [a_model(2, day(4), "b" * 64)]
    operator = TrainOperator(task_id="task", recipe="flights", data=data, workers=2)
    context = a_context(ti)
    folder = a_model_folder(home / "runs" / "model")
    output = outcome_of(operator, context, a_result(folder))
    assert output["gang_id"].endswith("/task")
    assert (output["submission"], output["model_uri"], output["model_digest"]) == (3, str(folder), "w" * 64)
    assert output["champion"]["model_id"] == "2"
    assert output["run_spec_digest"] == operator.work(context).digest
    assert (output["data_from"], output["data_until"]) == ("2013-01-02", "2013-01-04")


def test_a_model_whose_run_folder_is_gone_is_taken_from_the_store(
    registry: Registry, ti: Any, data: Any, home: Path
) -> None:
    operator = TrainOperator(task_id="task", recipe="flights", data=data, workers=2)
    kept = a_model_folder(home / "models" / "flights" / ("w" * 64))
    assert outcome_of(operator, a_context(ti), a_result(home / "runs" / "pruned"))["model_uri"] == str(kept)


def test_a_model_that_is_gone_is_an_error_that_says_where_and_what_to_do(
    registry: Registry, ti: Any, data: Any, home: Path
) -> None:
    operator = TrainOperator(task_id="task", recipe="flights", data=data, workers=2)
    with pytest.raises(AirflowFailException, match=r"wwwwwwwwwwww is gone: .*/runs/pruned and in .*clear task 'task'"):
        outcome_of(operator, a_context(ti), a_result(home / "runs" / "pruned"))
