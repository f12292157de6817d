from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from training.exit_codes import BadSpec
from training.recipes.flights_spec import FlightsSpec, ModelReference, Partition
from training.spec_file import load

SHA = "0" * 64


def a_run_spec(**changes: Any) -> dict[str, Any]:
    spec = FlightsSpec(
        partitions=(
            Partition(date=date(2013, 1, 1), manifest="/data/1", digest=SHA),
            Partition(date=date(2013, 1, 2), manifest="/data/2", digest="1" * 64),
        ),
        data_until=date(2013, 1, 3),
        warm_start=ModelReference(model_id="m1", path="/models/m1", digest=SHA),
        code_version="c",
    )
    content: dict[str, Any] = json.loads(spec.to_json())
    return content | changes


def digest_with(**changes: Any) -> str:
    return FlightsSpec.model_validate(a_run_spec(**changes)).digest()


def test_a_spec_reads_back_as_it_was_written(tmp_path: Path) -> None:
    spec = FlightsSpec.model_validate(a_run_spec())
    path = tmp_path / "run_spec.json"
    path.write_text(spec.to_json())
    assert load(path) == spec


def test_the_digest_is_the_same_when_only_places_differ() -> None:
    moved = [partition | {"manifest": "/elsewhere"} for partition in a_run_spec()["partitions"]]
    warm_start = a_run_spec()["warm_start"] | {"path": "/elsewhere"}
    assert digest_with(partitions=moved, warm_start=warm_start) == digest_with()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"workers": 4},
        {"code_version": "d"},
        {"data_until": "2013-01-04"},
        {"warm_start": None},
        {"checkpoint_every_steps": 7},
        {"params": {"epochs": 5}},
        {"partitions": a_run_spec()["partitions"][:1]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_digest_differs_when_the_result_could(changes: dict[str, Any]) -> None:
    assert digest_with(**changes) != digest_with()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"params": {"epochs": -3}}, "params.epochs = -3: input should be greater than or equal to 1"),
        ({"params": {"epoch": 3}}, "params.epoch = 3: there is no such field"),
        ({"params": {"learning_rate": "fast"}}, "params.learning_rate = 'fast': input should be a valid number"),
        ({"params": {"global_batch_size": 1}}, "global_batch_size = 1 leaves some of workers = 2 without a sample"),
        ({"workers": 0}, "workers = 0: input should be greater than or equal to 1"),
        ({"data_until": "2013-01-02"}, "2013-01-02 is not before data_until = 2013-01-02"),
        ({"partitions": a_run_spec()["partitions"][::-1]}, "the dates must ascend"),
        ({"partitions": []}, "partitions = []"),
        ({"recipe": "hotels"}, "recipe = 'hotels': there are 'flights', 'language_model'"),
        ({"recipe": None}, "recipe = None: there are"),
        ({"layout": {"shard": 3}}, "shard 3 x tensor 1 = 3 does not divide 2 ranks"),
        ({"optimizer": {"rule": "newton"}}, "optimizer.rule = 'newton'"),
        ({"schema_version": 2}, "schema_version = 2 is newer than 1"),
        ({"warm_start": {"model_id": "m", "path": "/m", "digest": "short"}}, "warm_start.digest = 'short'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_spec_names_file_field_and_value(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    path = tmp_path / "run_spec.json"
    path.write_text(json.dumps(a_run_spec(**changes)))
    with pytest.raises(BadSpec) as caught:
        load(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 64


@pytest.mark.parametrize("content", [None, "", "{", "[]", "3", '{"schema_version": 1}'])
def test_what_is_no_spec_at_all_is_a_bad_spec(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "run_spec.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadSpec, match=r"run_spec\.json"):
        load(path)
