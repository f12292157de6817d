"""Whoever saved it, any number of ranks in any layout loads it: bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training.checkpoints.states import differing, trained, whole
from tests.training.parallel.gang import on_ranks, world_of
from training import attempts, checkpoint_manifest
from training.checkpoints.checkpointer import Checkpointer
from training.checkpoints.restoring import restore
from training.checkpoints.state import TrainingState
from training.parallel.layout import Layout
from training.world import World

SAVED_BY = {
    "ddp": Layout(),
    "fsdp": Layout(shard=4),
    "hsdp": Layout(shard=2),
    "tensor": Layout(tensor=4),
    "fsdp x tensor": Layout(shard=2, tensor=2),
}
LOADED_BY = {
    1: {"one process": Layout()},
    2: {"ddp": Layout(), "fsdp": Layout(shard=2), "tensor": Layout(tensor=2)},
    3: {"ddp": Layout(), "fsdp, uneven": Layout(shard=3)},
    4: {"fsdp": Layout(shard=4), "hsdp": Layout(shard=2), "fsdp x tensor": Layout(shard=2, tensor=2)},
}


def save(world: World, state: TrainingState, run_dir: Path) -> None:
    run_dir.mkdir(exist_ok=True)
    claim = attempts.claim(run_dir, 1) if world.is_first else None
    with Checkpointer(replace(world, run_dir=run_dir), claim, 1, "digest", lambda: None) as checkpointer:
        checkpointer.begin(state)
        committed = checkpointer.drain()
    assert committed is not None


def save_in_every_layout(world: World, folder: Path) -> None:
    for name, layout in SAVED_BY.items():
        state = trained(world, layout, 3, seed=1)
        save(world, state, folder / name)
        tensors = whole(state)
        if world.is_first:
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / f"{name}.safetensors")


def load_in_every_layout(world: World, folder: Path) -> dict[tuple[str, str], set[str]]:
    """What differs, by who saved and who loaded."""
    found = {}
    for loader, layout in LOADED_BY[world.world_size].items():
        state = trained(world, layout, 1, seed=2)
        for saver in SAVED_BY:
            forget(state)
            checkpoint = checkpoint_manifest.find([folder / saver])
            assert checkpoint is not None
            restore(state, checkpoint, world, "digest")
            assert state.reader.position == 12
            found[saver, loader] = differing(whole(state), load_file(folder / f"{saver}.safetensors"))
    return found


def forget(state: TrainingState) -> None:
    state.optimizer.state.clear()
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.fill_(-1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    on_ranks(4, save_in_every_layout, tmp_path_factory.mktemp("ranks"), folder)
    return folder


@pytest.mark.parametrize("ranks", LOADED_BY)
def test_state_is_the_same_bit_for_bit_when_other_ranks_in_another_layout_go_on(
    ranks: int, saved: Path, tmp_path: Path
) -> None:
    if ranks == 1:
        found = load_in_every_layout(world_of(0, 1, tmp_path), saved)
    else:
        found = cast(dict[tuple[str, str], set[str]], on_ranks(ranks, load_in_every_layout, tmp_path, saved))
    assert found == {(saver, loader): set() for loader in LOADED_BY[ranks] for saver in SAVED_BY}


def test_each_rank_writes_its_own_shards_and_nothing_twice(saved: Path) -> None:
    for name in SAVED_BY:
        (folder,) = checkpoint_manifest.committed(saved / name)
        shards = sorted(folder.glob("*.safetensors"))
        assert [path.name for path in shards] == [f"attempt-1-rank-{rank}.safetensors" for rank in range(4)]
        values = [sum(tensor.numel() for tensor in load_file(path).values()) for path in shards]
        held = sum(tensor.numel() for tensor in load_file(saved / f"{name}.safetensors").values())
        assert sum(values) == held + 4 * torch.get_rng_state().numel()
        assert max(values) < 0.4 * sum(values)
