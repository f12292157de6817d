"""Numbers that ranks add up at each step without a collective of their own: they ride in DDP's buckets.

On two cores a second collective cost a tenth of a flights step. DDP averages whatever gradient a parameter has; one
that no model uses has the numbers for its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from training.collectives import Sums, peers

MOST = 16  # numbers
STEPS_OF_ONE = 1024.0  # float32 adds multiples of 1/1024 without rounding up to 16,384


class WithRiders(nn.Module):
    """A model beside a parameter for the numbers; what DDP wraps."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.riders = nn.Parameter(torch.zeros(2 * MOST))

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.model(*inputs)
        return output


class Apart:
    """The numbers travel on their own, while gradients are computed."""

    def backward(self, loss: Tensor, weight: float, numbers: Sequence[float]) -> None:
        """Compute the gradients of `loss` times `weight`, and send the numbers.

        Raises:
            PeerLost: another rank did not take part.
        """
        self._sums = Sums(*numbers)
        with peers():
            loss.backward(loss.new_tensor(weight))  # type: ignore[no-untyped-call]  # torch's

    def read(self) -> list[float]:
        """The numbers of the last `backward`, added up over all ranks."""
        return self._sums.read()


class Riding:
    """The same along with the gradients; `riders` is a `WithRiders`' that DDP wraps over so many ranks."""

    def __init__(self, riders: nn.Parameter, ranks: int) -> None:
        self._riders, self._ranks = riders, ranks
        self._count = 0

    def backward(self, loss: Tensor, weight: float, numbers: Sequence[float]) -> None:
        """As `Apart.backward`. A number travels as two of float32, of which the coarse one is added exactly."""
        given = torch.zeros(MOST, dtype=torch.float64)
        self._count = len(numbers)
        given[: self._count] = torch.tensor(numbers, dtype=torch.float64)
        coarse = (given * STEPS_OF_ONE).round() / STEPS_OF_ONE
        self._riders.grad = None
        told = torch.cat([coarse, given - coarse]).to(self._riders)
        with peers():
            torch.autograd.backward([loss, self._riders], [loss.new_tensor(weight), told])

    def read(self) -> list[float]:
        """As `Apart.read`."""
        assert self._riders.grad is not None
        coarse, fine = self._riders.grad.double().view(2, MOST)
        sums: list[float] = ((coarse + fine)[: self._count] * self._ranks).tolist()
        return sums
