"""A decoder-only transformer: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

ROTARY_BASE = 10_000.0  # Su et al., RoFormer, 2021


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Its shape. `kv_heads` share their keys and values among `heads`; `hidden` is the width inside a layer's MLP."""

    vocab: int
    dim: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    is_tied: bool = False  # one matrix for the embedding and for the head

    @property
    def parameters(self) -> int:
        """How many numbers it learns."""
        attention = 2 * self.dim * self.dim + 2 * self.dim * (self.dim // self.heads) * self.kv_heads
        layer = attention + 3 * self.dim * self.hidden + 2 * self.dim
        embeddings = self.vocab * self.dim * (1 if self.is_tied else 2)
        return self.layers * layer + embeddings + self.dim

    def flops_per_token(self, length: int) -> float:
        """Of a forward and a backward pass at this sequence length.

        6 for each parameter but the embedding's look-up, and 12 x layers x length x dim for attention, of which a
        causal mask needs half (Chowdhery et al., PaLM, 2022, appendix B, which counts all of it).
        """
        looked_up = 0 if self.is_tied else self.vocab * self.dim
        return 6.0 * (self.parameters - looked_up) + 6.0 * self.layers * length * self.dim


class Transformer(nn.Module):
    """Tokens, int64 [batch, length], to logits, [batch, length, vocab].

    With `recomputes` a layer's forward pass is made again in the backward pass instead of being kept.
    """

    def __init__(self, config: TransformerConfig) -> None:
        """Weights are drawn from torch's generator as it is."""
        super().__init__()
        self.config = config
        self.recomputes = False
        self.embedding = nn.Embedding(config.vocab, config.dim)
        self.layers = nn.ModuleDict({str(number): Layer(config) for number in range(config.layers)})
        self.norm = nn.RMSNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab, bias=False)
        self._initialise()
        if config.is_tied:
            self.head.weight = self.embedding.weight

    def _initialise(self) -> None:
        """Normal with 0.02, and less for what is added to the residual stream (Radford et al., GPT-2, 2019)."""
        for name, weight in self.named_parameters():
            if weight.dim() >= 2:
                is_added = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * self.config.layers) if is_added else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of each next token."""
        x = self.embedding(tokens)
        positions = rotary(x.shape[1], self.config.dim // self.config.heads, x.device)
        for layer in self.layers.values():
            recomputes = self.recomputes and torch.is_grad_enabled()
            x = checkpoint(layer, x, *positions, use_reentrant=False) if recomputes else layer(x, *positions)
        logits: Tensor = self.head(self.norm(x))
        return logits


class Layer(nn.Module):
    """Attention, then the MLP, each added to what comes in: [batch, length, dim]."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.dim)
        self.attention = Attention(config)
        self.mlp_norm = nn.RMSNorm(config.dim)
        self.mlp = Mlp(config)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        added: Tensor = x + self.mlp(self.mlp_norm(x))
        return added


class Attention(nn.Module):
    """Each token looks at those before it and at itself.

    How many heads there are is read off the projections, so that it is right where each rank holds some of them.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.head_dim = config.dim // config.heads
        self.query = nn.Linear(config.dim, config.heads * self.head_dim, bias=False)
        self.key = nn.Linear(config.dim, config.kv_heads * self.head_dim, bias=False)
        self.value = nn.Linear(config.dim, config.kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(config.heads * self.head_dim, config.dim, bias=False)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        query, key, value = (self._split(project(x)) for project in (self.query, self.key, self.value))
        query, key = turned(query, cosines, sines), turned(key, cosines, sines)
        has_groups = query.shape[1] != key.shape[1]
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=has_groups)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        """[batch, length, heads x head_dim] to [batch, heads, length, head_dim]."""
        batch, length, _ = x.shape
        return x.view(batch, length, -1, self.head_dim).transpose(1, 2)


class Mlp(nn.Module):
    """SwiGLU (Shazeer, 2020)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.dim, config.hidden, bias=False)
        self.up = nn.Linear(config.dim, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down(silu(self.gate(x)) * self.up(x))
        return down


def rotary(length: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of each position's angles, float32 [length, head_dim / 2] each."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
    angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), ROTARY_BASE**-steps)
    return angles.cos(), angles.sin()


def turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """[batch, heads, length, head_dim], each pair of halves turned by its position's angle, in x's type."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, first * sines + second * cosines), dim=-1).type_as(x)
