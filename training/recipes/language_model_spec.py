"""The run spec of the recipe "language_model": the next token of a text, by a decoder-only transformer."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training.run_spec import RunParams, RunSpec
from training.spec_model import Sha256, SpecModel


class Corpus(SpecModel):
    """Token shards: their folder, and the digest of their index, which covers every token."""

    path: str
    digest: Sha256


class LanguageModelParams(RunParams):
    """What may be chosen; the defaults are a model that two cores train in a minute or two.

    A sample is `sequence_length` tokens; `kv_heads` share their keys and values among the `heads`.
    """

    steps: int = Field(200, ge=1, le=10_000_000)
    global_batch_size: int = Field(16, ge=1, le=1_000_000)
    sequence_length: int = Field(128, ge=1, le=1_048_576)
    learning_rate: float = Field(3e-3, gt=0, le=1)
    weight_decay: float = Field(0.1, ge=0, le=100)
    layers: int = Field(2, ge=1, le=1024)
    dim: int = Field(64, ge=2, le=65_536)
    heads: int = Field(4, ge=1, le=1024)
    kv_heads: int = Field(4, ge=1, le=1024)
    hidden: int = Field(176, ge=1, le=1_048_576)
    tied_embeddings: bool = False

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.dim % (2 * self.heads):
            raise ValueError(
                f"params.dim = {self.dim} over params.heads = {self.heads} gives heads of {self.dim / self.heads:g}; "
                "rotary positions need an even whole number. Choose dim as a multiple of twice the heads"
            )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"params.heads = {self.heads} can't share params.kv_heads = {self.kv_heads} evenly. Choose kv_heads "
                "that divide heads"
            )
        return self


class LanguageModelSpec(RunSpec):
    """A run over a corpus of token shards."""

    LOCATIONS: ClassVar[dict[str, Any]] = {"corpus": {"path"}}

    recipe: Literal["language_model"] = "language_model"
    corpus: Corpus
    params: LanguageModelParams = LanguageModelParams()
