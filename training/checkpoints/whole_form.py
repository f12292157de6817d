"""Checkpoints of before ranks wrote their own shards: rank 0 wrote all weights into one file, whole, and so on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors import safe_open

from training.checkpoint_manifest import Commit
from training.checkpoints.image import BY_NAME
from training.checkpoints.index import Chunk, Index, Indexed
from training.checkpoints.state import LOSSES, MODEL, OPTIMIZER, random_numbers_of

LAYOUT = "whole"  # what such a commit manifest says


def read_index(folder: Path, commit: Commit) -> Index:
    """Where such a checkpoint has what, by the names that are used now."""
    prefix = f"attempt-{commit.attempt}-"
    named: list[tuple[str, Callable[[str], str]]] = [
        ("model", lambda key: f"{MODEL}.{key}"),
        ("optimizer", lambda key: f"{OPTIMIZER}.{key.replace('|', '.')}"),
        ("losses", lambda _: LOSSES),
    ]
    named += [(f"rank-{rank}", partial(_rank_name, rank)) for rank in range(commit.world_size)]
    tensors: dict[str, Indexed] = {}
    for what, name_of in named:
        tensors |= _tensors_in(folder, f"{prefix}{what}.safetensors", name_of)
    return Index(tensors)


def _rank_name(rank: int, _: str) -> str:
    return random_numbers_of(rank)


def _tensors_in(folder: Path, file_name: str, name_of: Callable[[str], str]) -> dict[str, Indexed]:
    found = {}
    with safe_open(folder / file_name, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118 - not a mapping
            part = file.get_slice(key)
            shape = torch.Size(part.get_shape())
            chunk = Chunk(torch.Size([0] * len(shape)), shape, file_name, key)
            found[name_of(key)] = Indexed(BY_NAME[part.get_dtype()], shape, (chunk,))
    return found
