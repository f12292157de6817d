"""What always-on seeing costs a step: the clock's laps, hang stacks, requests looked for; heartbeats are not in here.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/seeing_overhead.py

Makes the calls of one step as training/loop.py makes them, on one rank without a process group, and sets them beside a
step of a model about as small as the flights recipe's smallest (100 rows, 8 hidden units), in interleaved rounds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.trace_files import machine
from training.seeing.watch import Watch
from training.world import World

ROUNDS, STEPS = 21, 500


def seconds_of_seeing(watch: Watch) -> float:
    """Mean time of one step's calls."""
    began = time.perf_counter()
    for step in range(1, STEPS + 1):
        watch.clock.skip()
        for part in ("data", "forward", "backward", "optimiser", "communication"):
            watch.clock.lap(part)
        watch.step_made(step)
    return (time.perf_counter() - began) / STEPS


def seconds_of_a_step(model: nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> float:
    """Mean time of a step of a small model, without reading data and without other ranks: less than any real one."""
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = binary_cross_entropy_with_logits(model(rows).squeeze(1), rows[:, 0].sigmoid())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
    return (time.perf_counter() - began) / STEPS


def main() -> None:
    """Print both and their ratio."""
    print(machine())
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(40, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        world = World.from_env({}, Path(folder) / "run_spec.json")
        with Watch(world, lambda _: None) as watch:
            pairs = [
                (seconds_of_seeing(watch), seconds_of_a_step(model, optimizer, torch.randn(100, 40)))
                for _ in range(ROUNDS)
            ]
    shares = sorted(seeing / step for seeing, step in pairs)
    print(f"seeing: median {statistics.median(seeing for seeing, _ in pairs) * 1e6:.1f} us a step")
    print(f"smallest step: median {statistics.median(step for _, step in pairs) * 1e6:.0f} us")
    print(f"share: median {statistics.median(shares):.2%}, {shares[0]:.2%} to {shares[-1]:.2%}, {ROUNDS} rounds")


if __name__ == "__main__":
    main()
