"""A model laid out over the gang's ranks: one device mesh, torch's own DDP, FSDP2 and tensor parallelism over it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from training.collectives import peers, replicated
from training.exit_codes import BadSpec
from training.models.transformer import Transformer
from training.parallel.layout import Layout
from training.parallel.riding import Apart, Riding, WithRiders
from training.world import World


@dataclass(frozen=True, slots=True)
class LaidOut:
    """`module` is what optimizer and checkpoint see; `trained` is what is called. `data_rank` of `data_size` says which
    share of the global batch this rank reads: ranks that split a matrix product read the same. `exchange` computes
    gradients, and adds numbers up over the ranks meanwhile.
    """

    module: nn.Module
    trained: nn.Module
    data_rank: int
    data_size: int
    exchange: Apart | Riding = field(default_factory=Apart)


def lay_out(model: nn.Module, layout: Layout, world: World) -> LaidOut:
    """Lay the model out over the ranks; every rank calls it, after joining the gang, and before an optimizer is made.

    Raises:
        BadSpec: the model or the number of ranks does not allow the layout.
    """
    ranks = world.world_size
    try:
        copies = layout.replicate(ranks)
    except ValueError as error:
        raise BadSpec(f"run spec: {error}.") from error
    if not layout.is_sharded:
        if layout.activation_checkpointing:
            _transformer(model, "layout.activation_checkpointing").recomputes = True
        if not dist.is_initialized():
            return LaidOut(model, model, world.rank, ranks)
        beside = WithRiders(model)
        return LaidOut(model, replicated(beside), world.rank, ranks, Riding(beside.riders, ranks))
    if not dist.is_initialized():
        raise BadSpec(f"run spec: layout {layout} needs more than this one process. Launch it under torchrun.")
    transformer = _transformer(model, f"layout {layout}")
    degrees = copies, layout.shard, layout.tensor
    mesh = init_device_mesh("cpu", degrees, mesh_dim_names=("replicate", "shard", "tensor"))
    with peers():
        if layout.tensor > 1:
            _split_products(transformer, mesh["tensor"], layout)
        transformer.recomputes = layout.activation_checkpointing
        _shard(transformer, mesh["replicate", "shard"] if copies > 1 else mesh["shard"], layout)
    return LaidOut(model, model, world.rank // layout.tensor, ranks // layout.tensor)


def _transformer(model: nn.Module, asked: str) -> Transformer:
    if not isinstance(model, Transformer):
        raise BadSpec(
            f"run spec: {asked}: this recipe's model is too small to be split; every rank holds it whole. Leave the "
            "layout out."
        )
    return model


def _split_products(model: Transformer, mesh: DeviceMesh, layout: Layout) -> None:
    """Megatron's way (Shoeybi et al., 2019): by columns, then by rows, with one sum over the ranks for each pair.

    What is split by columns is sharded along the same dimension once more, and torch (2.13) puts only even parts of
    such weights back from a checkpoint.

    Raises:
        BadSpec: heads, or the width of heads or MLP, do not divide.
    """
    config = model.config
    parts = layout.tensor * layout.shard
    kv_width = config.kv_heads * config.dim // config.heads
    for name, count, degree, what in (
        ("params.heads", config.heads, layout.tensor, "layout.tensor"),
        ("params.kv_heads", config.kv_heads, layout.tensor, "layout.tensor"),
        ("params.hidden", config.hidden, parts, "layout.tensor x layout.shard"),
        ("params.dim x kv_heads / heads", kv_width, parts, "layout.tensor x layout.shard"),
    ):
        if count % degree:
            raise BadSpec(f"run spec: {name} = {count} does not divide by {what} = {degree}. Choose a multiple.")
    if config.is_tied:
        raise BadSpec("run spec: layout.tensor splits embedding and head apart; set params.tied_embeddings to false.")
    plan = {
        "attention.query": ColwiseParallel(),
        "attention.key": ColwiseParallel(),
        "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(),
        "mlp.gate": ColwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    for layer in model.layers.values():
        parallelize_module(layer, mesh, plan)
    if config.vocab % parts == 0:  # else each rank computes all logits
        parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Replicate())})


def _shard(model: Transformer, mesh: DeviceMesh, layout: Layout) -> None:
    """Layer by layer, so that only one is whole at a time; then what is left."""
    dtype = torch.bfloat16 if layout.precision == "bf16" else None
    within = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype and torch.float32)
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh, mp_policy=within)
    fully_shard(model, mesh=mesh, mp_policy=replace(within, output_dtype=dtype and torch.float32))
