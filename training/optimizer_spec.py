"""How weights follow gradients, as a part of the run spec; needs no torch."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from training.spec_model import SpecModel


class OptimizerSpec(SpecModel):
    """The rule, the schedule of its learning rate, and clipping; rates and decay of weights are the recipe's `params`.

    `momentum` is that of `sgd` and `rmsprop`. Of all steps, `warm_up_share` raise the learning rate linearly; then it
    falls along half a cosine to zero (`cosine`), stays and falls linearly to zero over the last `decay_share` (`wsd`:
    warm-up, stable, decay), or stays (`constant`). `clip_norm` bounds the norm of all gradients together.
    """

    rule: Literal["adamw", "sgd", "adagrad", "rmsprop"] = "adamw"
    momentum: float = Field(0.9, ge=0, lt=1)
    schedule: Literal["cosine", "wsd", "constant"] = "cosine"
    warm_up_share: float = Field(0.1, ge=0, le=1)
    decay_share: float = Field(0.2, ge=0, le=1)
    clip_norm: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.schedule == "wsd" and self.warm_up_share + self.decay_share > 1:
            raise ValueError(
                f"optimizer.warm_up_share = {self.warm_up_share:g} and optimizer.decay_share = {self.decay_share:g} "
                "are more than all steps together. Lower one"
            )
        return self
