from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.parallel.gang import on_ranks
from training.collectives import replicated
from training.parallel.riding import MOST, Apart, Riding, WithRiders
from training.world import World

RANKS = 3  # whose share, a third, no float holds
SAID = [0.7123456789, 5.4222333444, 1.0, 0.0, 12345.678, -3.5]


def numbers_of(rank: int) -> list[float]:
    return [number + rank for number in SAID]


def both(world: World) -> dict[str, Any]:
    """The sums by either way, the gradients beside them, and what a loss that is no number makes of its sum."""
    found: dict[str, Any] = {}
    for name in ("riding", "apart"):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        beside = WithRiders(model)
        trained = replicated(beside) if name == "riding" else replicated(model)
        exchange = Riding(beside.riders, RANKS) if name == "riding" else Apart()
        sums = []
        for step in range(3):
            model.zero_grad()
            loss = trained(torch.full((1, 4), float(world.rank + step))).square().mean()
            exchange.backward(loss, 0.5, numbers_of(world.rank))
            sums.append(exchange.read())
        gradients = torch.cat(
            [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
        )
        loss = trained(torch.ones(1, 4)).mean()
        exchange.backward(loss, 1.0, [math.nan if world.rank == 1 else 1.0, 1.0])
        found[name] = sums, gradients.tolist(), exchange.read()
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return on_ranks(RANKS, both, tmp_path_factory.mktemp("riding"))


def test_sums_are_those_of_the_numbers_by_either_way(found: dict[str, Any]) -> None:
    expected = [sum(numbers_of(rank)[at] for rank in range(RANKS)) for at in range(len(SAID))]
    assert found["apart"][0] == [pytest.approx(expected, rel=1e-12)] * 3
    assert found["riding"][0] == [pytest.approx(expected, rel=3e-7, abs=1e-9)] * 3


def test_gradients_are_the_same_when_numbers_ride_with_them(found: dict[str, Any]) -> None:
    assert found["riding"][1] == pytest.approx(found["apart"][1], rel=1e-6), "three ranks sum in another order"


def test_a_loss_that_is_no_number_is_heard_of_and_spoils_nothing_else(found: dict[str, Any]) -> None:
    for loss, other in (found["riding"][2], found["apart"][2]):
        assert math.isnan(loss)
        assert other == pytest.approx(RANKS)


def test_there_is_room_for_what_the_loop_says() -> None:
    assert MOST >= 8
