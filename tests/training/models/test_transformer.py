from __future__ import annotations

from typing import Any

import pytest
import torch

from training.models.transformer import Transformer, TransformerConfig

TOKENS = torch.randint(0, 17, (2, 9), generator=torch.Generator().manual_seed(1))


def a_model(seed: int = 0, **changes: int) -> Transformer:
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"vocab": 17, "dim": 16, "layers": 2, "heads": 4, "kv_heads": 2, "hidden": 24}
    return Transformer(TransformerConfig(**shape | changes))


def test_logits_have_one_row_for_each_token() -> None:
    assert a_model()(TOKENS).shape == (2, 9, 17)


def test_models_are_equal_when_their_seeds_are() -> None:
    assert torch.equal(a_model(3)(TOKENS), a_model(3)(TOKENS))
    assert not torch.equal(a_model(3)(TOKENS), a_model(4)(TOKENS))


def test_a_token_changes_nothing_before_it() -> None:
    model, changed = a_model(), TOKENS.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 17
    before, after = model(TOKENS), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_order_matters() -> None:
    model = a_model()
    assert not torch.allclose(model(TOKENS)[:, -1], model(TOKENS.flip(1))[:, -1])


@pytest.mark.parametrize("changes", [{}, {"kv_heads": 4}, {"is_tied": 1}, {"layers": 3, "hidden": 40}])
def test_its_config_counts_its_parameters(changes: dict[str, int]) -> None:
    model = a_model(**changes)
    assert sum(weight.numel() for weight in model.parameters()) == model.config.parameters


def test_flops_are_those_of_the_matrix_products() -> None:
    """Counted by torch over a forward and a backward pass; half of attention's, since the mask needs half."""
    from torch.utils.flop_counter import FlopCounterMode

    model = a_model()
    with FlopCounterMode(display=False) as counter:
        model(TOKENS).sum().backward()
    counted = counter.get_total_flops() / TOKENS.numel()
    assert model.config.flops_per_token(9) == pytest.approx(counted, rel=0.15)
