"""A program on Lightning that follows the run contract.

    torchrun --nproc-per-node 2 docs/examples/third_party/lightning_program.py run_spec.json

where `run_spec.json` holds, for example, `{"steps": 60, "checkpoint_every_steps": 10, "seed": 0}`; `training` has to be
importable. Needs `pip install lightning`.
"""

from __future__ import annotations

import os
from typing import Any

import lightning
import torch
from contracted import ContractedRun, run
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

FEATURES, BATCH = 16, 32  # samples of a step, over all ranks


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """This rank's share of each step's global batch, from a step on: made up, the same for any number of ranks."""

    def __init__(self, seed: int, first: int, steps: int, rank: int, ranks: int) -> None:
        self._seed, self._first, self._steps, self._share = seed, first, steps, slice(rank, None, ranks)

    def __len__(self) -> int:
        return self._steps - self._first

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(self._seed * 1_000_003 + self._first + number)
        inputs = torch.randn(BATCH, FEATURES, generator=random)[self._share]
        return inputs, inputs.sum(1, keepdim=True).sin()


class Model(lightning.LightningModule):
    """What is trained; it knows nothing of the contract."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch: tuple[Tensor, Tensor], _number: int) -> Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Contract(Callback):
    """Tells the run contract what Lightning does, and Lightning when to save and to stop."""

    def __init__(self, contracted: ContractedRun, first: int) -> None:
        self._run, self._step = contracted, first
        self.loss = 0.0
        self.is_stopped = False

    def on_train_start(self, *_: Any) -> None:
        self._run.stop.listen()  # Lightning has put its own handler of SIGTERM there, which ends in the middle

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, outputs: Any, *_: Any) -> None:
        self._step += 1
        strategy, spec = trainer.strategy, self._run.spec
        self.loss = float(strategy.reduce(outputs["loss"].detach(), reduce_op="mean"))
        self._run.beat(self._step, self._step * BATCH, self.loss)
        self.is_stopped = strategy.reduce_boolean_decision(self._run.stop.is_made, all=False)
        if self.is_stopped or self._step % spec["checkpoint_every_steps"] == 0:
            self._save(trainer, module)
        trainer.should_stop = self.is_stopped

    def _save(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if trainer.is_global_zero:
            state = {"model": module.state_dict(), "optimizer": trainer.optimizers[0].state_dict()}
            torch.save(state, self._run.folder_of(self._step) / "state.pt")
            self._run.commit(self._step, self._step * BATCH, "state.pt")
        trainer.strategy.barrier()


class Restore(Callback):
    """Puts a checkpoint's content back once Lightning has built the optimizer."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        module.load_state_dict(self._state["model"])
        trainer.optimizers[0].load_state_dict(self._state["optimizer"])


def train(contracted: ContractedRun) -> None:
    """Train to the end, or to a checkpoint if asked to stop."""
    spec, world = contracted.spec, contracted.world
    lightning.seed_everything(spec["seed"], verbose=False)
    found, restore = contracted.newest_checkpoint(), []
    if found is not None:
        state = torch.load(found.folder / "state.pt", weights_only=True)  # never runs what it reads
        restore = [Restore(state)]
    first = found.commit.step if found else 0
    contract = Contract(contracted, first)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        strategy="ddp" if world.world_size > 1 else "auto",
        max_epochs=1,
        callbacks=[contract, *restore],
        default_root_dir=world.launch_dir,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    batches = Batches(spec["seed"], first, spec["steps"], world.rank, world.world_size)
    if first:
        trainer.print(f"resumed from step {first}")
    trainer.fit(Model(), DataLoader(batches, batch_size=None))
    if contract.is_stopped:
        raise contracted.interrupted()
    contracted.done(spec["steps"] * BATCH, contract.loss)


if __name__ == "__main__":
    run(train)
