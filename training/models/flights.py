"""Will a flight arrive late? A linear model that can memorise single categories, and a small network beside it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from training.encoder import FLIGHT_WIDTH, WEATHER_WIDTH

# A window of 28 days holds 28 kinds of weather, not 25,000: the network would learn the days by heart. Noise of one
# standard deviation on the (scaled) weather, and hiding it from some samples, is what keeps it from that.
WEATHER_NOISE = 1.0
WEATHER_HIDDEN_SHARE = 0.3


class FlightsModel(nn.Module):
    """Logit of "arrives more than 15 minutes late" = wide part + deep part.

    Wide: one weight per category value and per number. Deep: an embedding per category value, numbers beside them, two
    hidden layers. Both start at zero output, so the first predictions are the base rate's.

    Args:
        sizes: how many values each category has, UNKNOWN included.
        embedding_dim: width of each category's embedding.
        hidden: width of the first hidden layer; the second has half of it.
        dropout: share of hidden units dropped in training.
    """

    def __init__(self, sizes: list[int], embedding_dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        numbers = FLIGHT_WIDTH + WEATHER_WIDTH
        self.wide = nn.ModuleList(nn.Embedding(size, 1) for size in sizes)
        self.linear = nn.Linear(numbers, 1)
        self.embeddings = nn.ModuleList(nn.Embedding(size, embedding_dim) for size in sizes)
        self.deep = nn.Sequential(
            nn.Linear(numbers + embedding_dim * len(sizes), hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden // 2),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden // 2, 1, bias=False),
        )
        for weight in (*self.wide.parameters(), self.linear.weight, *self.deep[-1].parameters()):
            nn.init.zeros_(weight)
        for weight in self.embeddings.parameters():
            nn.init.normal_(weight, std=0.05)

    def forward(self, categories: Tensor, flight: Tensor, weather: Tensor) -> Tensor:
        """Logits [n] from categories int64 [n, c], flight float32 [n, f] and weather float32 [n, w]."""
        if self.training:
            weather = weather + WEATHER_NOISE * torch.randn_like(weather)
            weather = weather * (torch.rand(len(weather), 1) >= WEATHER_HIDDEN_SHARE)
        numbers = torch.cat([flight, weather], dim=1)
        columns = categories.unbind(dim=1)
        wide = self.linear(numbers) + sum(table(column) for table, column in zip(self.wide, columns, strict=True))
        embedded = [table(column) for table, column in zip(self.embeddings, columns, strict=True)]
        logits: Tensor = (wide + self.deep(torch.cat([numbers, *embedded], dim=1))).squeeze(1)
        return logits

    def start_at_rate(self, rate: float) -> None:
        """Begin by predicting `rate` for every flight."""
        with torch.no_grad():
            self.linear.bias.fill_(torch.logit(torch.tensor(rate, dtype=torch.float64), eps=1e-4).item())

    def take_over(self, weights: dict[str, Tensor], share: float) -> None:
        """Start from a share of another model's weights; its categories come first here, new values keep their start.

        Windows of two nights have 27 days in common, so a model that went on from the whole of the last one's weights
        would learn those days again each night, until it knew them by heart. Letting go of a share prevents it (Ash and
        Adams, "On Warm-Starting Neural Network Training", 2020). The offset stays: the new window's rate is known.

        Raises:
            ValueError: the models differ in more than the number of category values.
        """
        own = self.state_dict()
        if own.keys() != weights.keys():
            raise ValueError(f"weights {sorted(own.keys() ^ weights.keys())} are in one of the models only")
        for name, weight in own.items():
            given = weights[name]
            is_table = name.startswith(("wide.", "embeddings."))
            if given.shape[1:] != weight.shape[1:] or (given.shape != weight.shape and not is_table):
                raise ValueError(f"weight {name!r} has shape {list(given.shape)}, asked for is {list(weight.shape)}")
            if name != "linear.bias":
                weight[: len(given)] = share * given
        self.load_state_dict(own)
