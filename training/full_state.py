"""A model's and an optimizer's state by the names of the parameters, whole, whatever the layout that trains them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from training.collectives import peers

_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


@dataclass(frozen=True, slots=True)
class FullState:
    """What rank 0 holds of all; on other ranks it is empty.

    `optimizer` is by parameter, then by what is kept of it (`exp_avg`); `groups` are the optimizer's settings, each
    with the names of its parameters. Weights that are shared are there once, by the first of their names.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, dict[str, Tensor]]
    groups: list[dict[str, Any]]


def gather(model: nn.Module, optimizer: torch.optim.Optimizer) -> FullState:
    """Gather it on rank 0; every rank calls it."""
    with peers():
        weights = whole_weights(model)
        # Asked before the first step, torch would make one to find out what is kept, and count it.
        has_state = bool(optimizer.state)
        found: dict[str, Any] = dict(get_optimizer_state_dict(model, optimizer, options=_WHOLE)) if has_state else {}
    return FullState(weights, found.get("state", {}), found.get("param_groups", []))


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name, on rank 0; every rank calls it."""
    weights: dict[str, Any] = dict(get_model_state_dict(model, options=_WHOLE))
    names: dict[int, str] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), name)
    doubles = {name for name, weight in model.named_parameters(remove_duplicate=False) if names[id(weight)] != name}
    return {name: weight.contiguous() for name, weight in weights.items() if name not in doubles}


def put_back(state: FullState, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Let each rank take its part of what every rank has read; the layout may be another than the one that saved."""
    options = StateDictOptions(full_state_dict=True, strict=False)
    with peers():
        set_model_state_dict(model, dict(state.weights), options=options)
        if state.groups:
            content: dict[str, Any] = {"state": state.optimizer, "param_groups": state.groups}
            set_optimizer_state_dict(model, optimizer, content, options=StateDictOptions(full_state_dict=True))
