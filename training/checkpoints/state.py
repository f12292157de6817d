"""What of a run changes while it trains, as tensors by name: the same names in every layout and on any rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict

from training.checkpoints.index import Index
from training.full_state import further_names
from training.reader import Reader

MODEL, OPTIMIZER, LOSSES = "model", "optimizer", "losses"


@dataclass(slots=True)
class TrainingState:
    """What changes while training. `losses` holds the global loss of every step so far; its length is the step.

    The learning rate is no state: it is a function of the step. Nor are an optimizer's settings: the run spec has them.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    reader: Reader
    losses: list[float] = field(default_factory=list)

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.losses)

    @property
    def last_loss(self) -> float | None:
        """The newest step's loss, if there was a step."""
        return self.losses[-1] if self.losses else None


def tensors_of(state: TrainingState, rank: int) -> dict[str, Tensor]:
    """All of it that this rank holds; DTensors are this rank's part of a whole.

    Raises:
        TypeError: the optimizer keeps something that is no tensor.
    """
    tensors = {f"{MODEL}.{name}": tensor for name, tensor in _model_tensors(state.model).items()}
    for name, parameter in state.model.named_parameters():
        for kind, value in state.optimizer.state.get(parameter, {}).items():
            if not isinstance(value, Tensor):
                raise TypeError(f"checkpoint: the optimizer keeps a {type(value).__name__} as {kind} of {name}.")
            tensors[f"{OPTIMIZER}.{name}.{kind}"] = value
    tensors[LOSSES] = torch.tensor(state.losses, dtype=torch.float64)
    tensors[random_numbers_of(rank)] = torch.get_rng_state()
    return tensors


def places_for(state: TrainingState, index: Index, rank: int | None) -> dict[str, Tensor]:
    """Tensors to load a checkpoint into: the model's and optimizer's own, and fresh ones for losses and random numbers.

    The optimizer begins to keep what the checkpoint holds for it. torch's `set_optimizer_state_dict` would take a step
    with zero gradients to find out what that is. Without `rank`, random numbers are left out.
    """
    places = {f"{MODEL}.{name}": tensor for name, tensor in _model_tensors(state.model).items()}
    parameters = dict(state.model.named_parameters())
    kept: dict[str, dict[str, Tensor]] = {}
    for key, tensor in index.tensors.items():
        section, _, rest = key.partition(".")
        name, _, kind = rest.rpartition(".")
        if section != OPTIMIZER or name not in parameters:
            continue
        parameter = parameters[name].detach()
        # What has a parameter's shape lies as the parameter does; all else, such as a count of steps, is whole.
        if tensor.shape and tensor.shape == parameter.shape:
            place = torch.empty_like(parameter, dtype=tensor.dtype)
        else:
            place = torch.empty(tensor.shape, dtype=tensor.dtype)
        kept.setdefault(name, {})[kind] = places[key] = place
    for name, parameter in parameters.items():
        state.optimizer.state.pop(parameter, None)
        if name in kept:
            state.optimizer.state[parameter] = kept[name]
    places[LOSSES] = torch.empty(index.tensors[LOSSES].shape, dtype=torch.float64)
    if rank is not None:
        places[random_numbers_of(rank)] = torch.empty_like(torch.get_rng_state())
    return places


def random_numbers_of(rank: int) -> str:
    """The name of the state of a rank's random numbers."""
    return f"rank-{rank}.rng"


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    tensors: dict[str, Any] = dict(get_model_state_dict(model))
    for name in further_names(model):
        tensors.pop(name, None)
    return tensors
