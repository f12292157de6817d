"""What the loop asks of a recipe; it knows nothing else of models or data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Batch(NamedTuple):
    """Some samples: what the model is called with, and what `loss_of` compares its output with."""

    inputs: tuple[Tensor, ...]
    targets: Tensor


class Recipe(Protocol):
    """One run's samples, model and rules.

    `starts_from` says in words what the model's weights are; `total_steps` is what the run makes.
    `flops_per_sample` is of a forward and a backward pass; None where nobody has counted.
    """

    starts_from: str
    sample_count: int
    total_steps: int
    tokens_per_sample: int | None
    flops_per_sample: float | None

    @property
    def model(self) -> nn.Module:
        """Whole, on the CPU, and equal on every rank."""
        ...

    def build_optimizer(self) -> torch.optim.Optimizer:
        """The optimizer over the model's parameters, as they are when it is called."""
        ...

    def learning_rate_at(self, step: int) -> float:
        """The learning rate for the step that comes after `step` steps."""
        ...

    def batch(self, indices: Tensor) -> Batch:
        """Some samples by their numbers, int64 [n]."""
        ...

    def loss_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss over the samples given, a scalar."""
        ...

    def export(self, weights: dict[str, Tensor], losses: list[float], folder: Path) -> str:
        """Write the finished model, whose whole weights these are; returns its digest."""
        ...
