"""torch's distributed checkpoint, saving into memory: each rank plans with the others and copies what it owns."""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from training.checkpoints.image import Entry, Image
from training.checkpoints.index import Index, name_in_file
from training.checkpoints.planned import planned


def stage(tensors: dict[str, Tensor], file: str, image: Image) -> Index | None:
    """Copy what of the tensors is this rank's to save into an image of `file`; every rank calls it.

    What several ranks hold is saved by one of them, in turn. The index of all is for the first rank, the others get
    None.
    """
    writer = StagingWriter(file, image)
    planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    with planned():
        save(dict(tensors), storage_writer=writer, planner=planner)
    return writer.index


class StagingWriter(StorageWriter):
    """Copies a rank's shards into an image of the file that they will be; nothing is written here.

    `index` is the first rank's, after the save; None on the others.
    """

    def __init__(self, file: str, image: Image) -> None:
        self.index: Index | None = None
        self._file, self._image = file, image

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing is kept from one save to the next."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing has to be there."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        own: dict[MetadataIndex, Tensor] = {}
        for item in plan.items:
            tensor = planner.resolve_data(item)
            if not isinstance(tensor, Tensor):
                raise TypeError(f"checkpoint: {item.index.fqn} is no tensor; only tensors are saved.")
            own[item.index] = tensor
        names = {index: name_in_file(index.fqn, index.offset) for index in own}
        places = self._image.lay_out([Entry(names[index], tensor.dtype, tensor.shape) for index, tensor in own.items()])
        for index, tensor in own.items():
            places[names[index]].copy_(tensor)
        results = [WriteResult(index, tensor.nbytes, self._file) for index, tensor in own.items()]
        written: Future[list[WriteResult]] = Future()
        written.set_result(results)
        return written

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        self.index = Index.of(metadata, {result.index: result.storage_data for rank in results for result in rank})

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003 - torch's
        return False
