"""A trained model as others use it: weights, and one page of JSON that says how to feed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from training import model_folder
from training.encoder import Encoder, Features
from training.exit_codes import BadData
from training.model_folder import CARD, SCHEMA
from training.models.flights import FlightsModel


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What `model.json` says.

    `data_until` is the first day that the model has not seen; `late_rate` is that of its training window.
    """

    recipe: str
    embedding_dim: int
    hidden: int
    encoder: Encoder
    late_rate: float
    data_from: date
    data_until: date
    spec_digest: str
    code_version: str
    warm_start_model_id: str | None
    metrics: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        plain = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("encoder", "data_from", "data_until")
        }
        dates = {"data_from": self.data_from.isoformat(), "data_until": self.data_until.isoformat()}
        return {"schema": SCHEMA, **plain, **dates, "encoder": self.encoder.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The card that `to_json` described."""
        known = {name: content[name] for name in cls.__slots__}
        known["encoder"] = Encoder.from_json(content["encoder"])
        known |= {name: date.fromisoformat(content[name]) for name in ("data_from", "data_until")}
        return cls(**known)


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """A model read back: verified against its manifest."""

    card: ModelCard
    weights: dict[str, Tensor]
    digest: str

    def predict(self, features: Features) -> npt.NDArray[np.float64]:
        """The probability of a late arrival per sample: float64 [n]."""
        model = FlightsModel(self.card.encoder.sizes, self.card.embedding_dim, self.card.hidden, dropout=0.0)
        model.load_state_dict(self.weights)
        model.eval()
        with torch.no_grad():
            logits = model(*as_tensors(features))
        probabilities: npt.NDArray[np.float64] = torch.sigmoid(logits.double()).numpy()
        return probabilities


def as_tensors(features: Features) -> tuple[Tensor, Tensor, Tensor]:
    """The model's inputs, sharing memory with the arrays."""
    arrays = (features.categories, features.flight, features.weather)
    categories, flight, weather = (torch.from_numpy(array) for array in arrays)
    return categories, flight, weather


def export(folder: Path, card: ModelCard, weights: dict[str, Tensor]) -> str:
    """Write a model; returns its digest."""
    return model_folder.write(folder, card.to_json(), weights)


def load(folder: Path, digest: str | None = None) -> ExportedModel:
    """Read a model and hold it against its manifest and, if given, the digest that it is known by.

    Raises:
        BadData: something is missing, changed, or of a newer version, or it is no flights model; names the file.
    """
    card, weights, found = model_folder.read(folder, digest)
    try:
        return ExportedModel(ModelCard.from_json(card), weights, found)
    except (ValueError, KeyError, TypeError) as error:
        raise BadData(f"model {folder / CARD}: no card of a flights model: {error!r}. Name another model.") from error
