"""A gang that loses a node goes on from the newest step, out of the memory of the node that is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.checkpoints.nodes import Node, launch
from tests.training.day_partitions import a_spec
from tests.training.torchrun import wait_until_gone
from training.checkpoint_manifest import committed
from training.recipes.flights_spec import FlightsSpec, Partition


@pytest.fixture(scope="module")
def spec(four_days: list[Partition]) -> FlightsSpec:
    return a_spec(four_days, peer_memory=True)


def losses_in(run_dir: Path) -> str:
    return (run_dir / "losses.jsonl").read_text()


@pytest.mark.slow  # three launches of torchrun on two nodes
def test_the_run_is_the_same_and_storage_is_not_read_when_a_node_is_lost(spec: FlightsSpec, tmp_path: Path) -> None:
    undisturbed = (Node("a", tmp_path / "undisturbed"), Node("b", tmp_path / "undisturbed"))
    launch(1, undisturbed, spec)
    run_dir = tmp_path / "run"
    left, lost, new = Node("left", run_dir), Node("lost", run_dir), Node("new", run_dir)
    launch(1, (left, lost), spec, PHALANX_FAIL_AT="1:13:kill")
    lost.lose()
    for folder in committed(run_dir):
        for path in folder.glob("*.safetensors"):
            path.write_bytes(b"torn")  # whoever reads it can't go on
    holders = [left.holder()]
    log, _ = launch(2, (left, new), spec)
    assert "resumed from step 10 of attempt 1, held in memory" in log
    assert losses_in(run_dir) == losses_in(tmp_path / "undisturbed")
    for pid in holders:  # the run is done
        wait_until_gone(pid)
    assert not new.has_holder()


def test_the_digest_of_a_run_does_not_depend_on_where_checkpoints_are_held(spec: FlightsSpec) -> None:
    plain = spec.model_copy(update={"peer_memory": False})
    assert spec.digest() == plain.digest()
    assert spec.lineage() == plain.lineage()
    assert json.loads(spec.to_json())["peer_memory"] is True
