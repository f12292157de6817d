"""What a checkpoint of a 500 MB state costs the steps, how fast it is written, and how long a verified resume takes.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.checkpoint_cost [--folder FOLDER] [--rounds 7]

On one rank and on two (DDP over gloo). A step is that of a stack of linear layers under AdamW, with the sum over the
ranks that the training loop makes after each. A checkpoint is begun every few steps. Then, with no steps beside it: a
checkpoint from begin to commit against a plain write of as many bytes with fsync, and `find` with `restore` against
`sha256sum` of the files with `torch.load` of the same tensors, as torch.save wrote them; each in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from benchmarks.trace_files import machine
from tests.training.parallel.gang import on_ranks, world_of
from training import attempts, checkpoint_manifest
from training.checkpoints.checkpointer import KEPT, Checkpointer, SaveProgress
from training.checkpoints.restoring import restore
from training.checkpoints.state import TrainingState, tensors_of
from training.collectives import add_up, meet, replicated
from training.reader import Reader
from training.world import World

WIDTH, LAYERS = 1024, 40  # 42 million weights; with AdamW's two moments 504 MB
ROWS = 32  # of a step's batch: 0.3 s and more
STEPS_BETWEEN, SAVES_AT = 14, 5  # steps
PIECE = 8 << 20


def main() -> None:
    """Print all of it, for one rank and for two."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure; else a temporary one")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(machine())
    for ranks in (1, 2):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name)
            if ranks == 1:
                torch.set_num_threads(1)
                found = measure(world_of(0, 1, folder), options.rounds)
            else:
                found = on_ranks(ranks, measure, folder, options.rounds)
        print(f"{ranks} ranks:")
        for line in found:
            print(f"  {line}")


def measure(world: World, rounds: int) -> list[str]:
    """One rank's part of all measurements; the first one's answer counts."""
    world = replace(world, run_dir=world.run_dir / "run")
    if world.is_first:
        world.run_dir.mkdir()
    meet()
    claim = attempts.claim(world.run_dir, 1) if world.is_first else None
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    state = TrainingState(model, torch.optim.AdamW(model.parameters()), Reader(1000, 2, 0, 0, 1))
    with Checkpointer(world, claim, 1, "digest", lambda: None) as checkpointer:
        return [
            *steps(state, replicated(model), checkpointer, rounds),
            *writing(state, world, checkpointer, rounds),
            *resuming(state, world, rounds),
        ]


def steps(state: TrainingState, trained: nn.Module, checkpointer: Checkpointer, rounds: int) -> list[str]:
    """The step that saves and the next one, beside those of the same cycle with nothing in flight."""
    rows = torch.randn(ROWS, WIDTH)
    quiet: list[float] = []
    beside: list[float] = []
    copies: list[float] = []
    costs: list[float] = []
    for cycle in range(rounds + 1):  # the first warms up, the staging buffer as well
        took, in_flight = [], []
        for number in range(STEPS_BETWEEN):
            in_flight.append(checkpointer.step_in_flight is not None)
            began = time.perf_counter()
            trained(rows).square().mean().backward()
            state.optimizer.step()
            state.optimizer.zero_grad()
            state.losses.append(0.0)
            said = add_up(0.0, 0.0, 0.0, 0.0, *checkpointer.progress())
            checkpointer.hear(SaveProgress(*said[4:]))
            copying = time.perf_counter()
            if number == SAVES_AT:
                checkpointer.begin(state)
                copies.append(time.perf_counter() - copying)
            took.append(time.perf_counter() - began)
        checkpointer.drain()
        if cycle:
            alone = [seconds for seconds, is_in in zip(took, in_flight, strict=True) if not is_in]
            alone.remove(took[SAVES_AT])
            quiet += alone
            beside += [seconds for seconds, is_in in zip(took, in_flight, strict=True) if is_in]
            costs.append(took[SAVES_AT] + took[SAVES_AT + 1] - 2 * statistics.median(alone))
    median = statistics.median(quiet)
    return [
        f"step: median {median:.3f} s ({span(quiet)})",
        f"save step + next step - 2 x median step: median {statistics.median(costs):.3f} s ({span(costs)})",
        f"of it copying: median {statistics.median(copies[1:]):.3f} s ({span(copies[1:])}), first {copies[0]:.2f} s",
        f"steps beside a write: {statistics.median(beside) / median:.2f} x, {len(beside) / rounds:.1f} of them a save",
    ]


def writing(state: TrainingState, world: World, checkpointer: Checkpointer, rounds: int) -> list[str]:
    """From begin to commit, beside a plain write by the first rank."""
    content = torch.randint(0, 255, (size_of(state),), dtype=torch.uint8).numpy().data

    def save() -> None:
        state.losses.append(0.0)
        checkpointer.begin(state)
        checkpointer.drain()

    written: list[Path] = []

    def plain() -> None:
        if world.is_first:  # a new file each time, and as many kept, as memory for a file's pages has its price as well
            written.append(world.run_dir / f"plain-{len(written)}")
            with written[-1].open("wb", buffering=0) as file:
                for start in range(0, len(content), PIECE):
                    file.write(content[start : start + PIECE])
                os.fsync(file.fileno())
        meet()
        if len(written) > KEPT:
            written[-1 - KEPT].unlink()

    saves, plains = in_turns((save, plain), rounds)
    for path in written[-KEPT:]:
        path.unlink()
    ratios = [one / other for one, other in zip(plains, saves, strict=True)]
    return [
        f"save of {len(content) / 1e6:.0f} MB: median {statistics.median(saves):.2f} s ({span(saves)}), "
        f"plain write with fsync {statistics.median(plains):.2f} s ({span(plains)}): "
        f"{statistics.median(ratios):.2f} of its speed ({span(ratios)})"
    ]


def resuming(state: TrainingState, world: World, rounds: int) -> list[str]:
    """Verifying and loading, beside sha256sum and torch.load by the first rank."""
    folder = checkpoint_manifest.committed(world.run_dir)[0]
    tensors = tensors_of(state, world.rank)
    file = world.run_dir / "tensors.pt"
    if world.is_first:
        torch.save(tensors, file)
    meet()

    def resume() -> None:
        found = checkpoint_manifest.find([world.run_dir]) if world.is_first else None
        meet()
        if found is None:
            found = checkpoint_manifest.Found(folder, checkpoint_manifest.read_commit(folder))
        restore(state, found, world, "digest")
        meet()

    def plain() -> None:
        if world.is_first:
            subprocess.run(["sha256sum", *folder.glob("*.safetensors")], check=True, stdout=subprocess.DEVNULL)
            torch.load(file, weights_only=True)
        meet()

    resumes, plains = in_turns((resume, plain), rounds)
    ratios = [one / other for one, other in zip(resumes, plains, strict=True)]
    return [
        f"verified resume: median {statistics.median(resumes):.2f} s ({span(resumes)}), sha256sum and torch.load "
        f"{statistics.median(plains):.2f} s ({span(plains)}): {statistics.median(ratios):.2f} x ({span(ratios)})"
    ]


def in_turns(works: Sequence[Callable[[], None]], rounds: int) -> list[list[float]]:
    """Seconds of each, by work; the first round only warms up."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds + 1):
        for work, seconds in zip(works, taken, strict=True):
            meet()
            began = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - began)
    return [seconds[1:] for seconds in taken]


def size_of(state: TrainingState) -> int:
    """Bytes that one rank would save."""
    return sum(tensor.nbytes for tensor in tensors_of(state, 0).values())


def span(values: Sequence[float]) -> str:
    """Least to most."""
    return f"{min(values):.2f} to {max(values):.2f}"


if __name__ == "__main__":
    main()
