"""Which part of the work each rank does: degrees of parallelism, and what can't go together."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from training.spec_model import SpecModel


class Layout(SpecModel):
    """The degrees multiply to the number of ranks; `replicate` is what the others leave of it.

    `shard`: ranks that hold a part of each weight, gradient and optimizer state (FSDP2); where there are several such
    groups, each holds a copy (HSDP). `tensor`: ranks that each compute a part of each matrix product. With neither,
    every rank holds the whole model (DDP). `activation_checkpointing` makes each layer's forward pass again in the
    backward pass instead of keeping it. `precision` is that of products and activations; weights and optimizer stay
    float32.
    """

    shard: int = Field(1, ge=1, le=65_536)
    tensor: int = Field(1, ge=1, le=1024)
    activation_checkpointing: bool = False
    precision: Literal["fp32", "bf16"] = "fp32"

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.precision != "fp32" and not self.is_sharded:
            raise ValueError(
                f"layout.precision = {self.precision!r} with layout.shard = 1 and layout.tensor = 1: DDP has no policy "
                "that keeps float32 weights. Set layout.shard to the number of ranks, which computes the same"
            )
        return self

    @property
    def is_sharded(self) -> bool:
        """False where every rank holds the whole model."""
        return self.shard > 1 or self.tensor > 1

    def replicate(self, ranks: int) -> int:
        """How many copies of the model so many ranks hold.

        Raises:
            ValueError: the degrees do not divide the ranks, or would train copies apart without noticing.
        """
        apart = self.shard * self.tensor
        if ranks % apart:
            raise ValueError(
                f"layout: shard {self.shard} x tensor {self.tensor} = {apart} does not divide {ranks} ranks (workers). "
                "Choose degrees whose product divides the workers, or more workers"
            )
        if self.tensor > 1 and self.shard == 1 and ranks > apart:
            # Measured on torch 2.13: DDP over a part of the mesh averages a part of each gradient; losses off by 1.25.
            raise ValueError(
                f"layout: tensor {self.tensor} on {ranks} ranks would hold {ranks // apart} copies by DDP, which "
                f"averages parts of gradients with the wrong ranks. Set layout.shard = {ranks // apart}"
            )
        return ranks // apart

    def __str__(self) -> str:
        return f"shard {self.shard} x tensor {self.tensor}"
