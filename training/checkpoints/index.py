"""Which file holds which part of each tensor, as JSON in place of the pickle that torch would write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from training.checkpoints.image import BY_NAME, DTYPES

SCHEMA = 1
INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a tensor: where it begins in the whole, its shape, and the file's tensor that holds it."""

    offsets: torch.Size
    shape: torch.Size
    file: str
    name: str


@dataclass(frozen=True, slots=True)
class Indexed:
    """A tensor; its chunks cover it, and don't overlap."""

    dtype: torch.dtype
    shape: torch.Size
    chunks: tuple[Chunk, ...]


def name_in_file(name: str, offsets: torch.Size | None) -> str:
    """What a chunk is called in its file."""
    return f"{name}@{','.join(map(str, offsets))}" if offsets and any(offsets) else name


@dataclass(frozen=True, slots=True)
class Index:
    """A checkpoint's tensors by name."""

    tensors: dict[str, Indexed]

    @classmethod
    def of(cls, metadata: Metadata, files: dict[MetadataIndex, str]) -> Self:
        """What a global save plan says, with the file that each chunk went to."""
        tensors = {}
        for name, tensor in metadata.state_dict_metadata.items():
            if not isinstance(tensor, TensorStorageMetadata):
                raise TypeError(f"checkpoint: {name} is no tensor; only tensors are saved.")
            chunks = tuple(
                Chunk(
                    chunk.offsets,
                    chunk.sizes,
                    files[MetadataIndex(name, chunk.offsets)],
                    name_in_file(name, chunk.offsets),
                )
                for chunk in tensor.chunks
            )
            tensors[name] = Indexed(tensor.properties.dtype, tensor.size, chunks)
        return cls(tensors)

    def to_metadata(self) -> Metadata:
        """What torch plans a load by."""
        tensors: dict[str, Any] = {
            name: TensorStorageMetadata(
                TensorProperties(dtype=tensor.dtype),
                tensor.shape,
                [ChunkStorageMetadata(chunk.offsets, chunk.shape) for chunk in tensor.chunks],
            )
            for name, tensor in self.tensors.items()
        }
        return Metadata(tensors)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {
            "schema": SCHEMA,
            "tensors": {
                name: {
                    "dtype": DTYPES[tensor.dtype],
                    "shape": tensor.shape,
                    "chunks": [
                        {"offsets": chunk.offsets, "shape": chunk.shape, "file": chunk.file} for chunk in tensor.chunks
                    ],
                }
                for name, tensor in self.tensors.items()
            },
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The index that `to_json` described.

        Raises:
            ValueError, KeyError, TypeError: it is none, or of a newer version.
        """
        if content["schema"] > SCHEMA:
            raise ValueError(f"schema {content['schema']} is newer than {SCHEMA} (training/checkpoints/index.py)")
        tensors = {}
        for name, tensor in content["tensors"].items():
            chunks = []
            for chunk in tensor["chunks"]:
                offsets = torch.Size(chunk["offsets"])
                chunks.append(Chunk(offsets, torch.Size(chunk["shape"]), chunk["file"], name_in_file(name, offsets)))
            tensors[name] = Indexed(BY_NAME[tensor["dtype"]], torch.Size(tensor["shape"]), tuple(chunks))
        return cls(tensors)
