"""A trained model as others use it: weights, and one page of JSON that says how to feed them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.encoder import Encoder, Features
from training.exit_codes import BadData
from training.files import digest_of, sha256_of, sync, write_json
from training.models.flights import FlightsModel

SCHEMA = 1
WEIGHTS, CARD, MANIFEST = "model.safetensors", "model.json", "manifest.json"


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
    """Write a model, its manifest last. Equal models give equal bytes, so writing it twice changes nothing.

    Returns:
        The model's digest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{WEIGHTS}.tmp"
    save_file({name: weight.contiguous() for name, weight in sorted(weights.items())}, temporary)
    sync(temporary)
    temporary.replace(folder / WEIGHTS)
    write_json(folder / CARD, card.to_json())
    files = [
        {"path": name, "bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in (CARD, WEIGHTS)
    ]
    digest = digest_of(files)
    write_json(folder / MANIFEST, {"schema": SCHEMA, "files": files, "digest": digest})
    return digest


def load(folder: Path, digest: str | None = None) -> ExportedModel:
    """Read a model and hold it against its manifest and, if given, the digest that it is known by.

    Raises:
        BadData: something is missing, changed, or of a newer version; names the file.
    """
    next_step = "Bring its files back, or name another model (phalanx models list)."
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        files, schema = manifest["files"], manifest["schema"]
        if schema > SCHEMA:
            raise BadData(
                f"model {folder}: schema {schema} is newer than {SCHEMA}, which this trainer reads. {next_step}"
            )
        found_digest = digest_of(files)
        if digest not in (None, found_digest):
            raise BadData(f"model {folder}: its digest is {found_digest}, asked for is {digest}. {next_step}")
        for file in files:
            found = sha256_of(folder / file["path"])
            if found != file["sha256"]:
                raise BadData(
                    f"model file {folder / file['path']}: sha256 {found}, expected {file['sha256']}. {next_step}"
                )
        card = ModelCard.from_json(json.loads((folder / CARD).read_bytes()))
        return ExportedModel(card, load_file(folder / WEIGHTS), found_digest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(f"model {folder}: can't be read: {error!r}. {next_step}") from error
