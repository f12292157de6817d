"""The recipe "flights": from a run spec to samples, model and optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from training import optimizers
from training.code_version import code_version
from training.data import read_flights
from training.encoder import Encoder, Features
from training.exit_codes import BadSpec
from training.exported_model import ExportedModel, ModelCard, as_tensors, export, load
from training.models.flights import FlightsModel
from training.recipes.flights_spec import FlightsSpec
from training.recipes.recipe import Batch

BETAS = (0.9, 0.999)  # torch's own


class Flights:
    """One run over a window of days, as the loop sees it."""

    tokens_per_sample: int | None = None
    flops_per_sample: float | None = None

    def __init__(self, spec: FlightsSpec) -> None:
        """Read and encode the window and build the model.

        Raises:
            BadData: see `read_flights` and `exported_model.load`.
            BadSpec: no step could be made, or the champion can't be started from.
        """
        self._spec = spec
        champion = read_champion(spec)
        self._samples = read_samples(spec, champion)
        self.sample_count = len(self._samples)
        self.total_steps = steps_in(spec, self.sample_count)
        self.model = build_model(spec, self._samples, champion)
        self.starts_from = "scratch" if champion is None else "the champion"
        factor = 1.0 if champion is None else spec.params.warm_start_learning_rate_factor
        self._peak_learning_rate = spec.params.learning_rate * factor

    def build_optimizer(self) -> torch.optim.Optimizer:
        """Weights decay, offsets do not."""
        params, named = self._spec.params, list(self.model.named_parameters())
        weights = [weight for name, weight in named if not name.endswith("bias")]
        offsets = [weight for name, weight in named if name.endswith("bias")]
        groups = [{"params": weights, "weight_decay": params.weight_decay}, {"params": offsets, "weight_decay": 0.0}]
        return optimizers.build(self._spec.optimizer, groups, params.learning_rate, BETAS)

    def learning_rate_at(self, step: int) -> float:
        return optimizers.learning_rate_at(self._spec.optimizer, step, self.total_steps, self._peak_learning_rate)

    def batch(self, indices: Tensor) -> Batch:
        return Batch(*self._samples.batch(indices))

    def loss_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(outputs, targets)

    def export(self, weights: dict[str, Tensor], losses: list[float], folder: Path) -> str:
        """Write the finished model; returns its digest."""
        spec, samples = self._spec, self._samples
        last_epoch = losses[-max(1, len(samples) // spec.params.global_batch_size) :]
        card = ModelCard(
            recipe=spec.recipe,
            embedding_dim=spec.params.embedding_dim,
            hidden=spec.params.hidden,
            encoder=samples.encoder,
            late_rate=samples.late_rate,
            data_from=spec.partitions[0].date,
            data_until=spec.data_until,
            spec_digest=spec.digest(),
            code_version=code_version(),
            warm_start_model_id=spec.warm_start.model_id if spec.warm_start else None,
            metrics={"final_loss": losses[-1], "last_epoch_loss": sum(last_epoch) / len(last_epoch)},
        )
        return export(folder, card, weights)


@dataclass(frozen=True, slots=True)
class Samples:
    """The training window, encoded."""

    inputs: tuple[Tensor, Tensor, Tensor]
    late: Tensor
    encoder: Encoder
    late_rate: float

    def __len__(self) -> int:
        return len(self.late)

    def batch(self, indices: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """Inputs and labels of some samples."""
        categories, flight, weather = (values[indices] for values in self.inputs)
        return (categories, flight, weather), self.late[indices]


def read_samples(spec: FlightsSpec, champion: ExportedModel | None) -> Samples:
    """Read and encode the window: with the champion's encoder, grown by new values, or one fitted on the window.

    Raises:
        BadData: see `read_flights`.
    """
    table = read_flights(spec.partitions)
    encoder = champion.card.encoder.grown(table) if champion else Encoder.fit(table)
    features: Features = encoder.encode(table)
    rate = float(features.late.mean()) if len(features) else 0.0
    return Samples(as_tensors(features), torch.from_numpy(features.late), encoder, rate)


def read_champion(spec: FlightsSpec) -> ExportedModel | None:
    """The model that the run starts from, if it names one.

    Raises:
        BadData: it is not what the run spec says, or it has seen days that this run must not see.
    """
    if spec.warm_start is None:
        return None
    champion = load(Path(spec.warm_start.path), spec.warm_start.digest)
    if champion.card.data_until > spec.data_until:
        raise BadSpec(
            f"run spec: warm_start = {spec.warm_start.model_id!r} has seen days until {champion.card.data_until} "
            f"(exclusive); data_until = {spec.data_until} is the first day that this run must not see. Name an "
            "older model."
        )
    return champion


def build_model(spec: FlightsSpec, samples: Samples, champion: ExportedModel | None) -> FlightsModel:
    """The model at step 0; equal on every rank.

    Raises:
        BadSpec: the champion's shape is another one.
    """
    params = spec.params
    torch.manual_seed(spec.seed)
    model = FlightsModel(samples.encoder.sizes, params.embedding_dim, params.hidden, params.dropout)
    model.start_at_rate(samples.late_rate)
    if champion is not None:
        try:
            model.take_over(champion.weights, params.warm_start_weight_share)
        except ValueError as error:
            raise BadSpec(
                f"run spec: params ask for embedding_dim = {params.embedding_dim}, hidden = {params.hidden}; the model "
                f"to start from has {champion.card.embedding_dim} and {champion.card.hidden}: {error}. Ask for its "
                "sizes, or train without warm_start."
            ) from error
    return model


def steps_in(spec: FlightsSpec, sample_count: int) -> int:
    """How many steps the run takes.

    Raises:
        BadSpec: not a single one.
    """
    params = spec.params
    steps = params.epochs * sample_count // params.global_batch_size
    if steps == 0:
        raise BadSpec(
            f"run spec: params.epochs = {params.epochs} over {sample_count} samples fill no batch of "
            f"params.global_batch_size = {params.global_batch_size}. Ask for a smaller batch or for more days."
        )
    return steps
