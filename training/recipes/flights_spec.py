"""The run spec of the recipe "flights": whether a flight will be late, from tables of past days."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training.run_spec import RunParams, RunSpec
from training.spec_model import Sha256, SpecModel


class Partition(SpecModel):
    """One day of data: where its manifest lies, and the manifest's digest, which covers what a reader gets."""

    date: datetime.date
    manifest: str
    digest: Sha256


class ModelReference(SpecModel):
    """An exported model: its id in the registry, its folder and its digest (`model_digest` in `result.json`)."""

    model_id: str
    path: str
    digest: Sha256


class FlightsParams(RunParams):
    """The recipe "flights": what may be chosen, with the defaults of the nightly run.

    The defaults were tuned on weeks of 2013 other than those that benchmarks/flights_quality.py reports.
    """

    epochs: int = Field(4, ge=1, le=1000)
    global_batch_size: int = Field(512, ge=1, le=1_000_000)
    learning_rate: float = Field(3e-3, gt=0, le=1)
    warm_start_learning_rate_factor: float = Field(0.5, gt=0, le=1)
    warm_start_weight_share: float = Field(0.5, ge=0, le=1)
    weight_decay: float = Field(5.0, ge=0, le=100)
    dropout: float = Field(0.2, ge=0, lt=1)
    embedding_dim: int = Field(8, ge=1, le=1024)
    hidden: int = Field(32, ge=2, le=8192)


class FlightsSpec(RunSpec):
    """A run over the partitions of some days; `data_until` is the first day that it must not see."""

    LOCATIONS: ClassVar[dict[str, Any]] = {"partitions": {"__all__": {"manifest"}}, "warm_start": {"path"}}

    recipe: Literal["flights"] = "flights"
    partitions: tuple[Partition, ...] = Field(min_length=1)
    data_until: datetime.date
    warm_start: ModelReference | None = None
    params: FlightsParams = FlightsParams()

    @model_validator(mode="after")
    def _days_are_in_order(self) -> Self:
        days = [partition.date for partition in self.partitions]
        if days != sorted(set(days)):
            raise ValueError("partitions: the dates must ascend and none may come twice")
        if days[-1] >= self.data_until:
            raise ValueError(
                f"partitions: {days[-1]} is not before data_until = {self.data_until}, the first day that the run must "
                "not see. Drop the partition or ask for a later data_until"
            )
        return self
