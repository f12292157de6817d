"""Two ranks that save, one of which is killed at some byte: started by test_killed.py, in processes of their own."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.training.checkpoints.faulty_disk import FaultyDisk, kill_self
from tests.training.parallel.gang import world_of
from training import attempts
from training.checkpoints.checkpointer import Checkpointer
from training.checkpoints.state import TrainingState
from training.collectives import from_first_rank
from training.exit_codes import PeerLost
from training.reader import Reader

RANKS = 2


def state_at(step: int) -> TrainingState:
    """What every rank holds after so many steps."""
    torch.manual_seed(7)
    model = nn.Linear(24, 24)
    state = TrainingState(model, torch.optim.AdamW(model.parameters(), lr=0.1), Reader(100, 2, 0, 0, 1))
    for number in range(step):
        model(torch.full((2, 24), float(number + 1))).square().mean().backward()
        state.optimizer.step()
        state.optimizer.zero_grad()
        state.reader.next_batch()
        state.losses.append(1 / (number + 3))
    return state


def save(rank: int, store: str, run_dir: Path, step: int, doomed: int | None, room: int | None) -> None:
    """Save that step; the doomed rank dies after `room` bytes, or once it has saved. Others say what they wrote."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    world = replace(world_of(rank, RANKS, run_dir), run_dir=run_dir)
    state = state_at(step)
    claim = attempts.claim(run_dir, 1) if world.is_first else None
    attempt = from_first_rank(claim and claim.attempt)
    disk = FaultyDisk(room if rank == doomed else None, kill_self)
    with (
        Checkpointer(world, claim, attempt, "digest", lambda: None) as checkpointer,
        pytest.MonkeyPatch.context() as patch,
    ):
        disk.install(patch)
        checkpointer.begin(state)
        try:
            checkpointer.drain()
        except PeerLost:
            os._exit(1)
        if rank == doomed:
            kill_self()
    (run_dir / f"ends-{rank}.json").write_text(json.dumps(disk.ends))
    with suppress(RuntimeError):  # the doomed one may be gone
        dist.barrier()
    os._exit(0)
