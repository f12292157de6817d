"""Runs' states to save and load, on real ranks and in any layout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from training.checkpoints.state import TrainingState, tensors_of
from training.models.transformer import Transformer, TransformerConfig
from training.optimizer_spec import OptimizerSpec
from training.optimizers import build
from training.parallel.laid_out import lay_out
from training.parallel.layout import Layout
from training.reader import Reader
from training.world import World

# On three ranks neither 40 nor 32 nor 8 divides, and of a two-row weight one rank has nothing.
SHAPE = TransformerConfig(vocab=40, dim=32, layers=1, heads=4, kv_heads=4, hidden=48)


def trained(world: World, layout: Layout, steps: int, seed: int, rule: Any = "adamw") -> TrainingState:
    """The state after some steps; a step is the same on every rank."""
    torch.manual_seed(seed)
    laid_out = lay_out(Transformer(SHAPE), layout, world)
    optimizer = build(OptimizerSpec(rule=rule), [{"params": list(laid_out.module.parameters())}], 1e-2, (0.9, 0.95))
    state = TrainingState(laid_out.module, optimizer, Reader(100, 4, 0, 0, 1))
    torch.manual_seed(seed + world.rank)
    for number in range(steps):
        tokens = torch.randint(0, SHAPE.vocab, (4, 9), generator=torch.Generator().manual_seed(number))
        loss = cross_entropy(laid_out.trained(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        laid_out.exchange.backward(loss, 1.0, ())
        optimizer.step()
        state.reader.next_batch()
        state.losses.append(1 / (number + 3))
    return state


def whole(state: TrainingState) -> dict[str, Tensor]:
    """All of it but random numbers, gathered on every rank."""
    tensors = tensors_of(state, 0)
    return {name: _whole(tensor) for name, tensor in tensors.items() if not name.startswith("rank-")}


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    """What is not the same bit for bit."""
    return {name for name in one.keys() | other.keys() if not _is_same(one.get(name), other.get(name))}


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and one.dtype == other.dtype and torch.equal(one, other)
