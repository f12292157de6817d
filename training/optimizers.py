"""Torch's optimizers by the run spec, and learning rates as functions of the step: no checkpoint has to hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.optim import SGD, Adagrad, AdamW, Optimizer, RMSprop

from training.optimizer_spec import OptimizerSpec


def build(
    spec: OptimizerSpec, groups: Iterable[dict[str, Any]], learning_rate: float, betas: tuple[float, float]
) -> Optimizer:
    """The optimizer over groups of parameters with their `weight_decay`; `betas` are AdamW's."""
    match spec.rule:
        case "adamw":
            return AdamW(groups, lr=learning_rate, betas=betas)
        case "sgd":
            return SGD(groups, lr=learning_rate, momentum=spec.momentum)
        case "adagrad":
            return Adagrad(groups, lr=learning_rate)
        case "rmsprop":
            return RMSprop(groups, lr=learning_rate, momentum=spec.momentum)


def learning_rate_at(spec: OptimizerSpec, step: int, total_steps: int, peak: float) -> float:
    """The learning rate for the step that comes after `step` steps."""
    warm_up_steps = spec.warm_up_share * total_steps
    rise = min(1.0, (step + 1) / warm_up_steps) if warm_up_steps else 1.0
    return peak * rise * _fall(spec, step, total_steps)


def _fall(spec: OptimizerSpec, step: int, total_steps: int) -> float:
    match spec.schedule:
        case "cosine":
            return 0.5 + 0.5 * math.cos(math.pi * step / total_steps)
        case "wsd":
            decay_steps = spec.decay_share * total_steps
            return min(1.0, (total_steps - step) / decay_steps) if decay_steps else 1.0
        case "constant":
            return 1.0


def clip(spec: OptimizerSpec, parameters: Iterable[Tensor]) -> None:
    """Bound the gradients' norm over all ranks, if the spec asks for it; every rank calls it.

    As `torch.nn.utils.clip_grad_norm_`, which (2.13) takes no gradients that lie on different device meshes.
    """
    if spec.clip_norm is None:
        return
    on_mesh: dict[DeviceMesh | None, list[Tensor]] = {}
    for gradient in (parameter.grad for parameter in parameters if parameter.grad is not None):
        on_mesh.setdefault(gradient.device_mesh if isinstance(gradient, DTensor) else None, []).append(gradient)
    norms = [_whole(get_total_norm(gradients)) for gradients in on_mesh.values()]
    norm = float(torch.linalg.vector_norm(torch.stack(norms)))
    scale = min(1.0, spec.clip_norm / (norm + 1e-6))
    for gradients in on_mesh.values():
        for gradient in gradients:
            gradient.mul_(scale)


def _whole(norm: Tensor) -> Tensor:
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
