"""A model's weights by the names of the parameters, whole, whatever the layout that trains them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from training.collectives import peers


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name, on rank 0, empty on the others; every rank calls it.

    Weights that are shared are there once, by the first of their names.
    """
    with peers():
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights: dict[str, Any] = dict(get_model_state_dict(model, options=options))
    for name in further_names(model):
        weights.pop(name, None)
    return {name: weight.contiguous() for name, weight in weights.items()}


def further_names(model: nn.Module) -> set[str]:
    """The names of shared weights but for the first of each."""
    firsts: dict[int, str] = {}
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, weight in named if firsts.setdefault(id(weight), name) != name}
