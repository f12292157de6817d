"""TrainOperator: the window's partitions in, a model out, trained by a gang."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from pydantic import ValidationError

from gang_ledgers.ledger import GangRecord
from operators import places
from operators.champion_pin import pinned_champion
from operators.gang import TEMPLATED, GangOperator, GangWork, gang_id_of
from operators.gangs import using_gangs
from operators.model_store import MANIFEST, find_model
from operators.params import TrainingParams
from operators.registries import day_start, registry
from training.code_version import code_version
from training.recipes.flights_spec import FlightsParams, FlightsSpec, ModelReference, Partition
from training.spec_model import describe

COMMAND = ("-m", "training.train", "{run_spec}")


class TrainOperator(GangOperator):
    """Trains on the window that ends the day before the interval, warm-started from the champion as of the interval.

    What the RunSpec holds and is not given here comes from the run's parameters (`TrainingParams`). A run whose RunSpec
    has been trained before, here or in another run, returns that model, from its run folder or from the models kept.

    Returns ids and places: the gang, the model, the champion it started from, and what it has seen.

    Args:
        recipe: the model's name in the registry and the recipe of `training`.
        data: what `SparkPreprocessOperator` returned.
        warm_start: start from the champion's weights if there is one.
        kwargs: as for `GangOperator`, but `min_workers`: the program's world size is part of its FlightsSpec.
    """

    template_fields: Collection[str] = ("recipe", "data", *TEMPLATED)
    ui_color = "#d9e8d5"

    def __init__(self, *, recipe: str, data: Any, warm_start: bool = True, **kwargs: Any) -> None:
        is_elastic = kwargs.get("min_workers") is not None or any(
            group.fewest < group.workers for group in kwargs.get("worker_groups") or ()
        )
        if is_elastic:
            raise AirflowException(
                f"{type(self).__name__} {kwargs.get('task_id')!r}: min_workers was given, but its program trains with "
                f"exactly the workers that its RunSpec names. Leave it out, or run an elastic program by GangOperator."
            )
        super().__init__(command=COMMAND, **kwargs)
        self.recipe = recipe
        self.data = data
        self.warm_start = warm_start

    def work(self, context: Context) -> GangWork:
        """The RunSpec of this interval."""
        spec = self._run_spec(context)
        return GangWork(spec.to_json(), spec.digest(), COMMAND, asked_with=str(self.data["asked_with"]))

    def outcome(self, record: GangRecord, context: Context) -> dict[str, Any]:  # noqa: ARG002 - the base class's
        """Where the model is, what it is called, and what it and its champion have seen.

        Raises:
            AirflowFailException: the model of a training that was done before is gone.
        """
        spec = FlightsSpec.model_validate_json(record.request.run_spec_json)
        return {
            "gang_id": record.gang_id,
            "submission": record.submission,
            "recipe": self.recipe,
            "model_uri": str(self._model_of(record)),
            "model_digest": record.result["model_digest"],
            "champion": spec.warm_start.model_dump(mode="json") if spec.warm_start else None,
            "run_spec_digest": spec.digest(),
            "code_version": spec.code_version,
            "data_from": spec.partitions[0].date.isoformat(),
            "data_until": spec.data_until.isoformat(),
        }

    def _model_of(self, record: GangRecord) -> Path:
        trained, digest = Path(record.result["model_dir"]), str(record.result["model_digest"])
        store = places.models_dir() / self.recipe
        if found := find_model(trained, store, digest):
            return found
        raise AirflowFailException(
            f"{self.recipe}: this training was done before, and its result is known, but the model {digest[:12]} is "
            f"gone: {MANIFEST} was looked for in {trained} and in {store / digest}. Bring one of the folders back, or "
            f"clear task {self.task_id!r} without the tasks before it, which trains again."
        )

    def _run_spec(self, context: Context) -> FlightsSpec:
        params = TrainingParams.read(context["params"])
        champion = self._champion(context) if self.warm_start else None
        days = self.data["window"]
        try:
            return FlightsSpec(
                recipe=self.recipe,
                partitions=tuple(
                    Partition(
                        date=date.fromisoformat(day),
                        manifest=self.data["manifests"][day],
                        digest=self.data["digests"][day],
                    )
                    for day in days
                ),
                data_until=self.data["day"],
                seed=params.seed,
                workers=sum(group.workers for group in self.groups()),
                checkpoint_every_steps=params.checkpoint_every_steps,
                warm_start=ModelReference(**champion) if champion else None,
                code_version=code_version(),
                params=FlightsParams(**params.model_dump(include=set(FlightsParams.model_fields))),
            )
        except ValidationError as error:
            raise AirflowFailException(
                f"The run's parameters ask for a training that can't be: {describe(error)} "
                f"Trigger the run again with other values."
            ) from None

    def _champion(self, context: Context) -> Mapping[str, Any] | None:
        ti = context["ti"]
        with using_gangs() as gangs:
            last = gangs.state(gang_id_of(context))
        champion = pinned_champion(
            context["task_state_store"],
            generation=ti.max_tries,
            asked_with=str(self.data["asked_with"]),
            last_state=last.state if last else None,
            resolve=self._resolve_champion,
        )
        day = self.data["day"]
        self.log.info(
            "%s",
            f"warm start from {champion['model_id']}, the champion as of {day}"
            if champion
            else f"no champion as of {day}: training starts from random weights",
        )
        return champion

    def _resolve_champion(self) -> Mapping[str, Any] | None:
        model = registry().as_of(self.recipe, day_start(self.data["day"]))
        if model is None:
            return None
        return {
            "model_id": str(model.model_id),
            "path": model.facts.uri,
            "digest": model.facts.model_digest,
        }
