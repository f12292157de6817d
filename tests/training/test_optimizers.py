from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from training.optimizer_spec import OptimizerSpec
from training.optimizers import build, clip, learning_rate_at

RULES = {
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_torch_s_and_brings_a_loss_down(rule: Any) -> None:
    weight = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = build(OptimizerSpec(rule=rule), [{"params": [weight], "weight_decay": 0.0}], 0.05, (0.9, 0.999))
    assert type(optimizer) is RULES[rule]
    first = (weight.detach() ** 2).sum()
    for _ in range(30):
        optimizer.zero_grad()
        (weight**2).sum().backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
    assert (weight.detach() ** 2).sum() < first


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"schedule": "constant"}, {0: 0.1, 9: 1.0, 50: 1.0, 99: 1.0}, id="constant"),
        pytest.param({"schedule": "cosine", "warm_up_share": 0}, {0: 1.0, 50: 0.5, 100: 0.0}, id="cosine"),
        pytest.param({"schedule": "wsd"}, {0: 0.1, 50: 1.0, 80: 1.0, 90: 0.5, 99: 0.05}, id="warm-up, stable, decay"),
        pytest.param({"schedule": "wsd", "decay_share": 0}, {99: 1.0}, id="never decays"),
    ],
)
def test_learning_rates_are_those_of_the_schedule(spec: dict[str, Any], expected: dict[int, float]) -> None:
    found = {step: learning_rate_at(OptimizerSpec(**spec), step, 100, 1.0) for step in expected}
    assert found == pytest.approx(expected)


def test_gradients_are_clipped_together_and_only_when_asked_for() -> None:
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.full((2,), 3.0)
    clip(OptimizerSpec(), weights)
    assert float(weights[0].grad.norm()) == pytest.approx(18**0.5)  # type: ignore[union-attr]
    clip(OptimizerSpec(clip_norm=1.5), weights)
    assert float(torch.cat([weight.grad for weight in weights if weight.grad is not None]).norm()) == pytest.approx(1.5)


def test_shares_of_more_than_all_steps_are_refused() -> None:
    with pytest.raises(ValidationError, match="more than all steps together"):
        OptimizerSpec(schedule="wsd", warm_up_share=0.5, decay_share=0.6)
