"""Whose arithmetic differs from the others'."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from training.seeing.corruption_check import check, judge_digests

A, B, C = ("a", "a"), ("b", "b"), ("a", "c")


@pytest.mark.parametrize(
    ("digests", "suspects"),
    [
        ([A], ()),
        ([A, A, A], ()),
        ([A, B, A], (1,)),
        ([A, B], (0, 1)),
        ([A, C, A], (1,)),
        ([A, C], (1,)),
    ],
    ids=["alone", "alike", "one differs", "no majority", "one is unsteady", "one of two is unsteady"],
)
def test_suspects_are_those_that_computed_something_else(
    digests: list[tuple[str, str]], suspects: tuple[int, ...]
) -> None:
    report = judge_digests(digests)
    assert report.suspects == suspects
    assert all(str(rank) in report.sentence(3) for rank in suspects)


def a_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.Linear(4, 1))


def test_check_changes_nothing_and_repeats_dropout() -> None:
    model = a_model()
    inputs = torch.randn(8, 4)
    model(inputs).sum().backward()
    model.eval()
    before = [tensor.clone() for tensor in model.state_dict().values()]
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    random = torch.get_rng_state()

    def loss() -> Tensor:
        result: Tensor = model(inputs).square().mean()
        return result

    report = check(model, loss)
    assert report.suspects == ()
    assert report.digests[0][0] == report.digests[0][1]
    assert not model.training
    assert torch.equal(random, torch.get_rng_state())
    after = list(model.state_dict().values())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    left = [parameter.grad for parameter in model.parameters()]
    assert all(other is not None and torch.equal(one, other) for one, other in zip(gradients, left, strict=True))


def test_digests_differ_when_one_bit_of_one_weight_is_another() -> None:
    inputs = torch.randn(8, 4)
    digests: list[tuple[str, str]] = []
    for flips in (0, 1):
        model = a_model()
        next(model.parameters()).detach().view(-1)[:1].numpy().view("uint32")[0] ^= flips

        def loss(model: nn.Module = model) -> Tensor:
            result: Tensor = model(inputs).square().mean()
            return result

        digests += check(model, loss).digests
    assert judge_digests(digests).suspects == (0, 1)
