from __future__ import annotations

from pathlib import Path

import pytest

from training.exit_codes import BadSpec
from training.world import World

GANG = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "localhost",
    "PHALANX_GANG_ID": "dag/run/train",
    "PHALANX_SUBMISSION": "2",
    "PHALANX_ATTEMPT": "5",
    "PHALANX_RUN_DIR": "/runs/a",
    "PHALANX_LAUNCH_DIR": "/runs/a/launch-5",
    "PHALANX_RESUME_FROM": "/runs/b",
}


def test_a_rank_of_a_gang_stands_where_its_environment_says() -> None:
    world = World.from_env(GANG, Path("/elsewhere/run_spec.json"))
    assert world == World(
        rank=3,
        local_rank=1,
        world_size=4,
        gang_id="dag/run/train",
        submission=2,
        launch=5,
        run_dir=Path("/runs/a"),
        launch_dir=Path("/runs/a/launch-5"),
        resume_from=Path("/runs/b"),
        is_under_torchrun=True,
    )
    assert not world.is_first


def test_a_lone_process_runs_beside_its_spec_when_there_is_no_gang(tmp_path: Path) -> None:
    world = World.from_env({"PHALANX_RESUME_FROM": ""}, tmp_path / "run_spec.json")
    assert (world.run_dir, world.launch_dir) == (tmp_path, tmp_path / "launch-1")
    assert world.is_first
    assert world.resume_from is None
    assert not world.is_under_torchrun


def test_a_number_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(BadSpec, match="PHALANX_ATTEMPT = 'x'"):
        World.from_env(GANG | {"PHALANX_ATTEMPT": "x"}, Path("s"))
