"""All that one training run needs, on one page of JSON, and the digest that decides whether it was done before."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from training.exit_codes import BadSpec
from training.files import digest_of

SCHEMA_VERSION = 1
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SpecModel(BaseModel):
    """Frozen, and strict about names: a misspelt parameter is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class FlightsParams(SpecModel):
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


class RunSpec(SpecModel):
    """One training run.

    `data_until` is the first day that the run must not see. `workers` is the world size. `code_version` is
    `training.code_version.code_version()` where the spec was made.
    """

    schema_version: Literal[1] = 1
    recipe: Literal["flights"] = "flights"
    partitions: tuple[Partition, ...] = Field(min_length=1)
    data_until: datetime.date
    seed: int = Field(0, ge=0, lt=2**31)
    workers: int = Field(2, ge=1, le=4096)
    checkpoint_every_steps: int = Field(50, ge=1)
    warm_start: ModelReference | None = None
    code_version: str = Field(min_length=1)
    params: FlightsParams = FlightsParams()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.params.global_batch_size % self.workers:
            raise ValueError(
                f"params.global_batch_size = {self.params.global_batch_size} does not divide by workers = "
                f"{self.workers}; every rank takes an equal share. Choose a multiple of {self.workers}"
            )
        days = [partition.date for partition in self.partitions]
        if days != sorted(set(days)):
            raise ValueError("partitions: the dates must ascend and none may come twice")
        if days[-1] >= self.data_until:
            raise ValueError(
                f"partitions: {days[-1]} is not before data_until = {self.data_until}, the first day that the run must "
                "not see. Drop the partition or ask for a later data_until"
            )
        return self

    def digest(self) -> str:
        """The sha256 of everything that determines the result: all fields but where files lie."""
        locations: dict[str, Any] = {"partitions": {"__all__": {"manifest"}}, "warm_start": {"path"}}
        return digest_of(self.model_dump(mode="json", exclude=locations))

    def to_json(self) -> str:
        """The page that `load` reads."""
        return self.model_dump_json(indent=1) + "\n"


def load(path: Path) -> RunSpec:
    """Read a run spec.

    Raises:
        BadSpec: it can't be read, is of a newer version or asks for what can't be; it names file, field and value.
    """
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadSpec(f"run spec {path}: can't be read: {error}. Write it again, or name another file.") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BadSpec(
            f"run spec {path}: schema_version = {version} is newer than {SCHEMA_VERSION}, the newest that this trainer "
            "knows (training/run_spec.py). Run it with a newer trainer."
        )
    try:
        return RunSpec.model_validate(content)
    except ValidationError as error:
        raise BadSpec(
            f"run spec {path}: {describe(error)} What is allowed stands in training/run_spec.py. Correct it where the "
            "run was asked for, and submit again."
        ) from error


def describe(error: ValidationError) -> str:
    """Every problem as "field = value: rule", for people."""
    return "; ".join(_problems(error)) + "."


def _problems(error: ValidationError) -> Iterable[str]:
    for problem in error.errors(include_url=False):
        field = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        if not field:  # a rule over several fields names them itself
            yield message
        elif problem["type"] == "missing":
            yield f"{field} is missing"
        elif problem["type"] == "extra_forbidden":
            yield f"{field} = {_short(problem['input'])}: there is no such field"
        else:
            yield f"{field} = {_short(problem['input'])}: {message[0].lower()}{message[1:]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
