"""Saves and restores in this process, as a gang of one."""

from __future__ import annotations

from pathlib import Path

from tests.training.checkpoints.states import trained
from tests.training.parallel.gang import world_of
from training import attempts, checkpoint_manifest
from training.checkpoints.checkpointer import Checkpointer, Committed
from training.checkpoints.restoring import restore
from training.checkpoints.state import TrainingState
from training.parallel.layout import Layout

DIGEST = "digest"


def a_state(run_dir: Path, steps: int, seed: int = 1) -> TrainingState:
    """The state of a run after some steps."""
    return trained(world_of(0, 1, run_dir), Layout(), steps, seed)


def a_checkpointer(run_dir: Path) -> Checkpointer:
    """That of a new attempt."""
    claim = attempts.claim(run_dir, 1)
    return Checkpointer(world_of(0, 1, run_dir), claim, claim.attempt, DIGEST, lambda: None)


def save(run_dir: Path, state: TrainingState) -> Committed:
    """Save a state and wait until it is committed."""
    with a_checkpointer(run_dir) as checkpointer:
        checkpointer.begin(state)
        committed = checkpointer.drain()
    assert committed is not None
    return committed


def restored(run_dir: Path) -> TrainingState:
    """The newest checkpoint that verifies, put into another state."""
    state = a_state(run_dir, 1, seed=9)
    found = checkpoint_manifest.find([run_dir])
    assert found is not None
    restore(state, found, world_of(0, 1, run_dir), DIGEST)
    return state
