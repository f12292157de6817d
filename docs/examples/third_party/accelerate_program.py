"""A program on Hugging Face Accelerate that follows the run contract.

    torchrun --nproc-per-node 2 docs/examples/third_party/accelerate_program.py run_spec.json

where `run_spec.json` holds, for example, `{"steps": 60, "checkpoint_every_steps": 10, "seed": 0}`; `phalanx` and
`training` have to be importable. Needs `pip install accelerate`.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from contracted import ContractedRun, run
from safetensors.torch import load_file, save_file
from torch import nn

FEATURES, BATCH = 16, 32  # samples of a step, over all ranks


def samples_of(step: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The global batch of a step: made up, and the same whatever the number of ranks."""
    random = torch.Generator().manual_seed(seed * 1_000_003 + step)
    inputs = torch.randn(BATCH, FEATURES, generator=random)
    return inputs, inputs.sum(1, keepdim=True).sin()


def train(contracted: ContractedRun) -> None:
    """Train to the end, or to a checkpoint if asked to stop."""
    spec = contracted.spec
    accelerator = Accelerator(cpu=True)
    set_seed(spec["seed"])
    model: nn.Module = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(model, optimizer)
    step, loss_of_step = restore(contracted, accelerator, model), 0.0
    share = slice(accelerator.process_index, None, accelerator.num_processes)
    while step < spec["steps"]:
        inputs, targets = (tensor[share] for tensor in samples_of(step, spec["seed"]))
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        step += 1
        told = torch.tensor([loss.item() / accelerator.num_processes, float(contracted.stop.is_made)])
        loss_of_step, stops = accelerator.reduce(told, "sum").tolist()
        contracted.beat(step, step * BATCH, loss_of_step)
        if stops or step % spec["checkpoint_every_steps"] == 0:
            save(contracted, accelerator, model, step)
        if stops:
            raise contracted.interrupted()
    contracted.done(step * BATCH, loss_of_step)


def restore(contracted: ContractedRun, accelerator: Accelerator, model: nn.Module) -> int:
    """Put the newest checkpoint back on every rank; the step that it is of, 0 without one."""
    found = [contracted.newest_checkpoint() if accelerator.is_main_process else None]
    broadcast_object_list(found)
    if found[0] is None:
        return 0
    accelerator.unwrap_model(model).load_state_dict(load_file(found[0].folder / "model.safetensors"))
    accelerator.print(f"resumed from step {found[0].commit.step}")
    return found[0].commit.step


def save(contracted: ContractedRun, accelerator: Accelerator, model: nn.Module, step: int) -> None:
    """Write and commit a checkpoint. Plain SGD keeps nothing but the weights."""
    if accelerator.is_main_process:
        save_file(accelerator.unwrap_model(model).state_dict(), contracted.folder_of(step) / "model.safetensors")
        contracted.commit(step, step * BATCH, "model.safetensors")
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    run(train)
