"""PromoteOperator: registers the model, and makes it the champion if it is better by the margin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context
from airflow.sdk.exceptions import AirflowException

from model_registry.registry import ChampionMoved, Model, ModelRegistry, NewModel
from operators import places
from operators.comparison import ComparingOperator
from operators.model_store import keep_model
from operators.params import TrainingParams
from operators.promotion import Decision, decide
from operators.registries import day_end, day_start, registry

TRIES = 3  # how often a comparison is made again because the champion changed meanwhile


class PromoteOperator(ComparingOperator):
    """Registers the new model and moves the champion pointer to it, by compare-and-set, if it is better by the margin.

    The first model must be better than the base rate by the margin. A run whose day the production champion has seen
    registers its model only. A champion that changed since the comparison is compared with anew. A move emits an event
    of the asset `phalanx://champions/NAME` through the alias `champion-NAME`; doing the task again moves nothing twice.

    Args:
        report: what `EvaluateOperator` returned.
        margin: in AUC; None: the run's parameter.
        recipe: the name that the models compete under; it names the asset.
    """

    template_fields: Collection[str] = ("report", "margin")
    ui_color = "#e3d9f0"

    def __init__(self, *, report: Any, recipe: str, margin: float | str | None = None, **kwargs: Any) -> None:
        self._alias = AssetAlias(f"champion-{recipe}")
        super().__init__(outlets=[self._alias, *kwargs.pop("outlets", ())], **kwargs)
        self.report = report
        self.recipe = recipe
        self.margin = margin

    def execute(self, context: Context) -> dict[str, Any]:
        """Register, decide, move."""
        ti = context["ti"]
        params = TrainingParams.read({**context["params"], **({} if self.margin is None else {"margin": self.margin})})
        run = f"{ti.dag_id}/{ti.run_id}"
        models = registry()
        model = self._register(models, ti.dag_id, ti.run_id)
        decision = self._decide_and_move(models, model, run, params.margin)
        champion = models.champion(self.recipe)
        self.log.info("%s", decision.sentence)
        if decision.moves and champion is not None:
            context["outlet_events"][self._alias].add(
                Asset(name=f"champion-{self.recipe}", uri=f"phalanx://champions/{self.recipe}"),
                extra={"model_id": model.model_id, "version": champion.version, "run": run},
            )
        return {
            "model_id": model.model_id,
            "model_uri": model.facts.uri,
            "promoted": decision.moves,
            "why": decision.sentence,
            "champion_id": champion.model.model_id if champion else None,
        }

    def _register(self, models: ModelRegistry, dag_id: str, run_id: str) -> Model:
        trained: Mapping[str, Any] = self.report["model"]
        kept = keep_model(trained["model_uri"], places.models_dir() / self.recipe, trained["model_digest"])
        model = models.register(
            NewModel(
                name=self.recipe,
                digest=trained["run_spec_digest"],
                gang_id=trained["gang_id"],
                dag_id=dag_id,
                run_id=run_id,
                data_from=day_start(trained["data_from"]),
                data_until=day_start(trained["data_until"]),
                seen_until=day_end(self.report["day"]),
                uri=str(kept),
                model_digest=trained["model_digest"],
                code_version=trained["code_version"],
                metrics=self.read_metrics(self.report["report"]),
            )
        )
        self.log.info("%s", f"model {model.model_id} of {self.recipe!r} is registered: {kept}")
        return model

    def _decide_and_move(self, models: ModelRegistry, model: Model, run: str, margin: float) -> Decision:
        compared: Mapping[str, Any] = self.report
        for _ in range(TRIES):
            production = models.champion(self.recipe)
            metrics = self.read_metrics(compared["report"])
            decision = decide(
                model.model_id,
                run,
                day_start(compared["day"]),
                margin,
                production,
                models.history(self.recipe),
                compared["champion_id"],
                metrics,
            )
            if decision.is_comparable and not decision.moves:
                return decision
            if decision.moves:
                try:
                    models.move_champion(
                        self.recipe,
                        model.model_id,
                        compared["champion_id"],
                        run=run,
                        who="airflow",
                        why=decision.sentence,
                        metrics=metrics,
                    )
                except ChampionMoved as moved:
                    self.log.warning("%s", f"{moved}; comparing with the new champion")
                else:
                    return decision
            rival = models.champion(self.recipe)
            self.log.info("%s", f"comparing with {f'model {rival.model.model_id}' if rival else 'the base rate'} now")
            compared = self.compare(compared["model"], compared["data"], rival.model if rival else None)
        raise AirflowException(
            f"The champion of {self.recipe!r} changed {TRIES} times while model {model.model_id} was compared with it. "
            f"Clear the evaluate task to compare again."
        )
