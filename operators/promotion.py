"""The promotion rule: a pure decision, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from model_registry.registry import Champion, ChampionMove

BASE_RATE_AUC = 0.5  # of any constant prediction


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the pointer moves, and why; `is_comparable` is false if a comparison with the champion is lacking."""

    moves: bool
    sentence: str
    is_comparable: bool = True


def decide(
    model_id: int,
    run: str,
    day_begins: datetime,
    margin: float,
    production: Champion | None,
    moves: Sequence[ChampionMove],
    compared_with: int | None,
    metrics: Mapping[str, Any],
) -> Decision:
    """Whether this run's model becomes the production champion.

    Args:
        model_id: the challenger.
        run: the DAG run that trained it; a run moves the pointer to its model once and never again.
        day_begins: when the day begins on which it was compared.
        margin: by how much its AUC must be higher; also over the base rate, for the first model.
        production: the pointer now.
        moves: all that were made.
        compared_with: the model that it was compared with; None: with the base rate only.
        metrics: those of the comparison, `challenger` and `champion`, each with `auc`.
    """
    if earlier := [move for move in moves if move.to_model == model_id and move.run == run]:
        now = "it is the champion" if production and production.model.model_id == model_id else "it was replaced since"
        return Decision(False, f"model {model_id} was promoted by this run before (move {earlier[-1].number}); {now}")
    if production is not None and production.model.facts.seen_until > day_begins:
        return Decision(
            False,
            f"model {model_id} is registered only: the production champion, model {production.model.model_id}, has "
            f"seen data until {production.model.facts.seen_until:%Y-%m-%d}, this run is of {day_begins:%Y-%m-%d}",
        )
    if (production.model.model_id if production else None) != compared_with:
        return Decision(False, "the champion has changed since the comparison", is_comparable=False)
    auc = metrics["challenger"]["auc"]
    rival = f"model {compared_with}" if production else "the base rate"
    rival_auc = metrics["champion"]["auc"] if production else BASE_RATE_AUC
    if auc is None or rival_auc is None:
        return Decision(
            False, f"model {model_id} is registered only: on a day whose flights all end alike, AUC has no meaning"
        )
    found = f"AUC {auc:.4f} against {rival_auc:.4f} of {rival}: {auc - rival_auc:+.4f}, margin {margin:g}"
    if auc - rival_auc < margin:
        return Decision(False, f"model {model_id} is registered only: {found}")
    return Decision(True, f"model {model_id} is better: {found}")
