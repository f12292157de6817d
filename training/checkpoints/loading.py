"""torch's distributed checkpoint, loading from verified files: each rank takes its part, whoever saved it."""

from __future__ import annotations

import io
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Never

from safetensors import safe_open
from torch import Tensor
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from training.checkpoints.index import Chunk, Index
from training.checkpoints.planned import planned


def load_into(tensors: dict[str, Tensor], folder: Path, index: Index) -> None:
    """Fill the tensors with what the checkpoint holds by their names; every rank calls it.

    Raises:
        RuntimeError, ValueError: the checkpoint has no such tensor, or one of another shape.
    """
    with planned():
        load(tensors, storage_reader=SafetensorsReader(folder, index), planner=_TensorsOnly())


class _TensorsOnly(DefaultLoadPlanner):
    """As torch's own would unpickle whatever is not a tensor."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> Never:  # noqa: ARG002 - torch's
        raise TypeError(f"checkpoint: {read_item.dest_index.fqn} is no tensor; nothing else is loaded.")


class SafetensorsReader(StorageReader):
    """Reads chunks out of memory-mapped files, and of each no more than the part that is asked for."""

    def __init__(self, folder: Path, index: Index) -> None:
        self._folder, self._index = folder, index

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing is kept from one load to the next."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:  # noqa: ARG002 - torch's
        return self._index.to_metadata()

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """The index holds all that is needed."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        by_file: dict[str, list[tuple[ReadItem, Chunk]]] = defaultdict(list)
        for item in plan.items:
            chunks = self._index.tensors[item.storage_index.fqn].chunks
            (chunk,) = [chunk for chunk in chunks if chunk.offsets == item.storage_index.offset]
            by_file[chunk.file].append((item, chunk))
        for name, items in by_file.items():
            with safe_open(self._folder / name, framework="pt") as file:
                for item, chunk in items:
                    target = planner.resolve_tensor(item)
                    target.copy_(_part(file, item, chunk))
                    planner.commit_tensor(item, target)
        read: Future[None] = Future()
        read.set_result(None)
        return read

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003 - torch's
        return False


def _part(file: Any, item: ReadItem, chunk: Chunk) -> Tensor:
    if item.lengths == chunk.shape:
        whole: Tensor = file.get_tensor(chunk.name)
        return whole
    bounds = zip(item.storage_offsets, item.lengths, strict=True)
    part: Tensor = file.get_slice(chunk.name)[tuple(slice(start, start + length) for start, length in bounds)]
    return part
