"""How fast the training loop turns, beside a bare loop of the same maths.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.training_speed [--pairs 10] [--recipe flights|language_model]

Two ranks over gloo. In one process per rank, the loop of `training/loop.py` and a bare one take turns: both have the
recipe's model, samples in the same order, loss, optimizer and learning rate, under DDP. The bare one is written as
PyTorch's tutorials do it: no heartbeat, no file, no agreement, no clock; it reads its own loss at each step, as ours
does. Ours does all that it does in a run, but for checkpoints, which `checkpoint_cost` measures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.trace_files import machine
from tests.training.day_partitions import a_spec, write_days
from training import spec_file
from training.checkpoints.state import TrainingState
from training.loop import Run
from training.parallel.laid_out import LaidOut
from training.reader import Reader
from training.recipes.by_name import recipe_of
from training.recipes.language_model_spec import Corpus, LanguageModelParams, LanguageModelSpec
from training.recipes.recipe import Recipe
from training.spec_file import AnySpec
from training.stop_request import StopRequest
from training.text_folder import own_documents, write_corpus
from training.world import World

RANKS = 2
STEPS = {"flights": 150, "language_model": 20}  # of one turn: one to three seconds
PAIRS = "pairs.json"
Pair = tuple[float, float]  # steps a second, ours and bare


def main() -> None:
    """Print the ratio for each recipe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--recipe", choices=sorted(STEPS), action="append")
    parser.add_argument("--rank-of", type=Path, help=argparse.SUPPRESS)  # what torchrun starts
    options = parser.parse_args()
    if options.rank_of:
        take_turns(options.rank_of, options.pairs)
        return
    print(machine())
    for name in options.recipe or sorted(STEPS):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run_spec.json"
            path.write_text(SPECS[name](Path(folder)).model_dump_json())
            torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
            program = ["-m", __spec__.name, "--rank-of", str(path), "--pairs", str(options.pairs)]
            quiet = os.environ | {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # as training/train.py
            subprocess.run([sys.executable, *torchrun, *program], check=True, env=quiet, stdout=subprocess.DEVNULL)
            pairs: list[Pair] = json.loads((Path(folder) / PAIRS).read_text())
        ratios = sorted(ours / bare for ours, bare in pairs)
        ours, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{name}: ours {ours:.1f} steps/s, bare {bare:.1f} steps/s; ratio, median of {len(ratios)} pairs: "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )


def flights(folder: Path) -> AnySpec:
    """The nightly recipe on two months of made-up flights."""
    params = {"global_batch_size": 512, "hidden": 32, "embedding_dim": 8}  # the recipe's defaults
    return a_spec(write_days(folder, 60, 800), workers=RANKS, params=params)


def language_model(folder: Path) -> AnySpec:
    """A model that is small, but not as small as the default: a step of it takes about as long as many on a GPU do."""
    index = write_corpus(folder / "corpus", own_documents())
    params = LanguageModelParams(dim=128, hidden=352, layers=4)
    corpus = Corpus(path=str(folder / "corpus"), digest=index.digest)
    return LanguageModelSpec(corpus=corpus, workers=RANKS, code_version="benchmark", params=params)


SPECS: dict[str, Callable[[Path], AnySpec]] = {"flights": flights, "language_model": language_model}


class Turns(Run):
    """A run that ends after its turns, with neither checkpoints nor a model."""

    steps, count = 0, 0
    pairs: list[Pair]

    def _train(self, state: TrainingState, recipe: Recipe, laid_out: LaidOut) -> None:
        self.pairs = []
        bare = Bare(self.spec, self.world)
        for number in range(self.count + 1):
            recipe.total_steps = bare.recipe.total_steps = (number + 1) * self.steps

            def ours() -> None:
                super(Turns, self)._train(state, recipe, laid_out)

            turns = [("ours", ours), ("bare", lambda: bare.make_steps(self.steps))]
            took = {name: _seconds(turn) for name, turn in (turns if number % 2 else reversed(turns))}
            if number:  # the first warms up
                self.pairs.append((self.steps / took["ours"], self.steps / took["bare"]))

    def _checkpoint(self, state: TrainingState) -> None:
        """None."""

    def _finish(self, state: TrainingState, recipe: Recipe) -> None:
        """No model."""


class Bare:
    """The same maths and nothing else."""

    def __init__(self, spec: AnySpec, world: World) -> None:
        self.recipe = recipe_of(spec)
        batch = spec.params.global_batch_size
        self.reader = Reader(self.recipe.sample_count, batch, spec.seed, world.rank, world.world_size)
        self.optimizer = self.recipe.build_optimizer()
        self.model = DistributedDataParallel(self.recipe.model)
        self.step = 0
        self.losses: list[float] = []

    def make_steps(self, count: int) -> None:
        """So many steps."""
        for _ in range(count):
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.learning_rate_at(self.step)
            inputs, targets = self.recipe.batch(torch.from_numpy(self.reader.next_batch()))
            loss = self.recipe.loss_of(self.model(*inputs), targets)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch's
            self.optimizer.step()
            self.losses.append(loss.item())
            self.step += 1


def _seconds(turn: Callable[[], None]) -> float:
    dist.barrier()
    began = time.perf_counter()
    turn()
    dist.barrier()
    return time.perf_counter() - began


def take_turns(path: Path, pairs: int) -> None:
    """One rank, from its start to its end."""
    world = World.from_env(os.environ, path)
    spec = spec_file.load(path)
    run = Turns(world, spec, StopRequest(), None)
    run.steps, run.count = STEPS[spec.recipe], pairs
    run.go()
    if world.is_first:
        (path.parent / PAIRS).write_text(json.dumps(run.pairs))
    os._exit(0)  # as training/train.py ends


if __name__ == "__main__":
    main()
