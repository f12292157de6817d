"""What every training run needs, whatever its recipe, and the digest that decides whether it was done before."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training.files import digest_of
from training.optimizer_spec import OptimizerSpec
from training.parallel.layout import Layout
from training.spec_model import SpecModel

SCHEMA_VERSION = 1


class RunParams(SpecModel):
    """What may be chosen in every recipe; `global_batch_size` is in samples over all ranks."""

    global_batch_size: int = Field(512, ge=1, le=1_000_000)
    learning_rate: float = Field(3e-3, gt=0, le=1)
    weight_decay: float = Field(0.0, ge=0, le=100)


class RunSpec(SpecModel):
    """One training run, on one page of JSON; each recipe has a spec of its own that adds its data and its `params`.

    `workers` is the world size. `code_version` is `training.code_version.code_version()` where the spec was made.
    """

    # What says where things lie, and not what they are: it is left out of the digest.
    LOCATIONS: ClassVar[dict[str, Any]] = {}
    # What changes nothing of what is learned, and is left out as well.
    _IN_ANY_RUN: ClassVar[dict[str, Any]] = {"peer_memory": True, "checkpoint_storage": True, "sample_ledger": True}

    schema_version: Literal[1] = 1
    recipe: str
    seed: int = Field(0, ge=0, lt=2**31)
    workers: int = Field(2, ge=1, le=4096)
    checkpoint_every_steps: int = Field(50, ge=1)
    peer_memory: bool = False
    checkpoint_storage: str | None = Field(None, pattern=r"^[a-z][a-z0-9+.-]*://.+")
    sample_ledger: bool = False
    code_version: str = Field(min_length=1)
    layout: Layout = Layout()
    optimizer: OptimizerSpec = OptimizerSpec()
    params: RunParams

    @model_validator(mode="after")
    def _gives_every_rank_a_sample(self) -> Self:
        readers = self.workers // self.layout.tensor if self.layout.replicate(self.workers) else 0
        if self.params.global_batch_size < readers:
            what = f"workers = {self.workers}" if self.layout.tensor == 1 else f"workers / layout.tensor = {readers}"
            raise ValueError(
                f"params.global_batch_size = {self.params.global_batch_size} leaves some of {what} without a sample. "
                f"Choose at least {readers}"
            )
        return self

    def digest(self) -> str:
        """The sha256 of everything that determines the result: all fields but where files lie."""
        return digest_of(self.model_dump(mode="json", exclude=self.LOCATIONS | self._IN_ANY_RUN))

    def lineage(self) -> str:
        """The sha256 of what a checkpoint must share with a run that goes on from it: how many ranks train, in which
        layout, and how often they save may differ.
        """
        apart = {"workers": True, "layout": True, "checkpoint_every_steps": True}
        return digest_of(self.model_dump(mode="json", exclude=self.LOCATIONS | self._IN_ANY_RUN | apart))

    def to_json(self) -> str:
        """The page that `spec_file.load` reads."""
        return self.model_dump_json(indent=1) + "\n"
