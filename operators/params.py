"""The parameters of a training run: one model, from which the trigger form, its checks and their errors come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training.recipes.flights_spec import FlightsParams

FLIGHTS = FlightsParams()


class TrainingParams(BaseModel):
    """What a person may choose when starting a run; the defaults are those of the nightly run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replay_year: int | None = Field(
        2013,
        ge=1900,
        le=2100,
        title="Replayed year",
        description="The interval's calendar day is taken from this year; empty: from the interval itself. "
        "The flights source holds 2013.",
    )
    window_days: int = Field(
        28,
        ge=1,
        le=364,
        title="Window (days)",
        description="Days to train on, up to the one before the interval.",
    )
    epochs: int = Field(
        FLIGHTS.epochs, ge=1, le=100, title="Epochs", description="How often the window is gone through."
    )
    global_batch_size: int = Field(
        FLIGHTS.global_batch_size,
        ge=8,
        le=65536,
        title="Batch size",
        description="Samples per step over all workers; at least one for each.",
    )
    learning_rate: float = Field(FLIGHTS.learning_rate, gt=0, le=1, title="Learning rate", description="At its peak.")
    seed: int = Field(0, ge=0, le=2**31 - 1, title="Seed", description="Of the first weights and of the sample order.")
    workers: int = Field(
        2, ge=1, le=64, title="Workers", description="Training processes, started together or not at all."
    )
    checkpoint_every_steps: int = Field(
        50, ge=1, le=100_000, title="Checkpoint every (steps)", description="The most steps that a fault can cost."
    )
    margin: float = Field(
        0.002,
        ge=0,
        le=0.5,
        title="Margin (AUC)",
        description="By how much the challenger must beat the champion on the interval's day to replace it.",
    )

    @classmethod
    def as_airflow(cls) -> dict[str, Param]:
        """One typed `Param` per field, for `DAG(params=...)`; Airflow shows them as a form and checks the bounds."""
        form = {}
        for name, schema in cls.model_json_schema()["properties"].items():
            rules = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
            for option in schema.get("anyOf", ()):  # an optional number: its bounds, and null beside its type
                rules |= {key: value for key, value in option.items() if key != "type"}
            if "anyOf" in schema:
                rules["type"] = [option["type"] for option in schema["anyOf"]]
            form[name] = Param(schema["default"], **rules)
        return form

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Self:
        """The checked parameters of a run.

        Raises:
            AirflowFailException: one is out of bounds, of a wrong type, or at odds with another; no retry can help.
        """
        try:
            read = cls(**{name: params[name] for name in cls.model_fields if name in params})
        except ValidationError as error:
            found = "; ".join(
                f"{'.'.join(map(str, problem['loc']))} = {problem['input']!r}: {problem['msg']}"
                for problem in error.errors()
            )
            raise AirflowFailException(
                f"the run's parameters ask for something that can't be: {found} "
                f"(bounds: operators/params.py). Trigger the run again with other values."
            ) from None
        if read.global_batch_size < read.workers:
            raise AirflowFailException(
                f"the run's parameters ask for something that can't be: global_batch_size = {read.global_batch_size} "
                f"leaves some of workers = {read.workers} without a sample. Trigger the run again with at least "
                f"{read.workers}."
            )
        return read


def refuse_unknown(asked: Mapping[str, Any] | None, declared: Iterable[str], dag_id: str) -> None:
    """Refuse what a run was triggered with and its DAG has no parameter for: Airflow would pass over a misspelt name.

    Raises:
        AirflowFailException: names them, and the parameters that there are.
    """
    known = sorted(declared)
    unknown = sorted(set(asked or {}) - set(known))
    if unknown:
        raise AirflowFailException(
            f"the run was triggered with {', '.join(repr(name) for name in unknown)}, which DAG {dag_id!r} has no "
            f"parameter for. Its parameters are {', '.join(known)}. Trigger the run again with one of these names."
        )
