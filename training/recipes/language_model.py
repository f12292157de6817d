"""The recipe "language_model": from a run spec to windows of tokens, a transformer and its optimizer."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from training import model_folder, optimizers
from training.code_version import code_version
from training.exit_codes import BadData
from training.models.transformer import Transformer, TransformerConfig
from training.recipes.language_model_spec import LanguageModelSpec
from training.recipes.recipe import Batch
from training.token_shards import Windows, read_index

BETAS = (0.9, 0.95)  # Brown et al., GPT-3, 2020, appendix B
VALIDATED_AT_MOST = 256  # windows


class LanguageModel:
    """One run over a corpus, as the loop sees it; a sample is a window of `sequence_length` tokens."""

    starts_from = "scratch"
    tokens_per_sample: int | None
    flops_per_sample: float | None

    def __init__(self, spec: LanguageModelSpec) -> None:
        """Open the corpus and build the model.

        Raises:
            BadData: the corpus is not what the spec says, or too short for a window.
        """
        self._spec = spec
        params, folder = spec.params, Path(spec.corpus.path)
        self._index = read_index(folder, spec.corpus.digest)
        length = self.tokens_per_sample = params.sequence_length
        self._train, self._validation = (
            Windows(folder, self._index, split, length) for split in ("train", "validation")
        )
        self.sample_count = len(self._train)
        if not self.sample_count:
            raise BadData(
                f"corpus {folder}: none of its documents to train on fills a window of params.sequence_length = "
                f"{length} tokens. Ask for a shorter one, or bring more text."
            )
        self.total_steps = params.steps
        self.config = TransformerConfig(
            self._index.vocab,
            params.dim,
            params.layers,
            params.heads,
            params.kv_heads,
            params.hidden,
            params.tied_embeddings,
        )
        self.flops_per_sample = length * self.config.flops_per_token(length)
        torch.manual_seed(spec.seed)
        self.model = Transformer(self.config)

    def build_optimizer(self) -> torch.optim.Optimizer:
        """Matrices decay, norms do not."""
        params, weights = self._spec.params, list(self.model.parameters())
        groups = [
            {"params": [weight for weight in weights if weight.dim() >= 2], "weight_decay": params.weight_decay},
            {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
        ]
        return optimizers.build(self._spec.optimizer, groups, params.learning_rate, BETAS)

    def learning_rate_at(self, step: int) -> float:
        return optimizers.learning_rate_at(
            self._spec.optimizer, step, self.total_steps, self._spec.params.learning_rate
        )

    def batch(self, indices: Tensor) -> Batch:
        """Windows: inputs and, one token later, targets, int64 [n, sequence_length] both."""
        tokens = torch.from_numpy(self._train.read(indices.numpy()))
        return Batch((tokens[:, :-1],), tokens[:, 1:])

    def loss_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over all tokens of the negative log likelihood, in nats."""
        return cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def export(self, weights: dict[str, Tensor], losses: list[float], folder: Path) -> str:
        """Write the finished model, with its loss on documents that it has not seen; returns its digest."""
        spec = self._spec
        metrics = {"final_loss": losses[-1]}
        validation_loss = self.validate(weights)
        untrained_loss = self.validate(None)
        if validation_loss is not None and untrained_loss is not None:
            metrics |= {
                "validation_loss": validation_loss,
                "validation_perplexity": math.exp(validation_loss),
                "untrained_perplexity": math.exp(untrained_loss),
            }
        card = {
            "schema": model_folder.SCHEMA,
            "recipe": spec.recipe,
            "config": asdict(self.config),
            "tokenizer": self._index.tokenizer,
            "corpus_digest": spec.corpus.digest,
            "spec_digest": spec.digest(),
            "code_version": code_version(),
            "metrics": metrics,
        }
        return model_folder.write(folder, card, weights)

    def validate(self, weights: dict[str, Tensor] | None) -> float | None:
        """The mean loss over the first windows of the validation documents; None if they fill none.

        Args:
            weights: by name; None: those that training began with.
        """
        torch.manual_seed(self._spec.seed)
        model = Transformer(self.config).eval()
        if weights is not None:
            model.load_state_dict(weights, strict=not self.config.is_tied)
        numbers = np.arange(min(len(self._validation), VALIDATED_AT_MOST))
        total, count = 0.0, 0
        with torch.no_grad():
            for part in np.array_split(numbers, math.ceil(len(numbers) / 16) or 1):
                tokens = torch.from_numpy(self._validation.read(part))
                total += float(self.loss_of(model(tokens[:, :-1]), tokens[:, 1:])) * len(part)
                count += len(part)
        return total / count if count else None
