"""Silent data corruption: every rank makes the same step, and gradients that differ name the rank that is damaged."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from training.collectives import peers

SEED = 0x5EED


@dataclass(frozen=True, slots=True)
class CorruptionReport:
    """The digests of the same step's weights and gradients by rank, of each of two repeats; `suspects` have others.

    A rank whose own repeats differ is a suspect. Otherwise those are that differ from the majority; where there is
    none, as with two ranks that disagree, all are.
    """

    digests: tuple[tuple[str, str], ...]
    suspects: tuple[int, ...]

    def sentence(self, step: int) -> str:
        """What it found, for people."""
        ranks = len(self.digests)
        if not self.suspects:
            return f"corruption check after step {step}: {ranks} ranks have the same weights and gradients, twice"
        named = ", ".join(map(str, self.suspects))
        return (
            f"corruption check after step {step}: weights or gradients of the same step differ on rank(s) {named} of "
            f"{ranks}. Resume from a checkpoint on other devices, and test these."
        )


def judge_digests(digests: Sequence[tuple[str, str]]) -> CorruptionReport:
    """Who computed something else, by what all computed."""
    pairs = tuple((first, second) for first, second in digests)
    unsteady = [rank for rank, (first, second) in enumerate(pairs) if first != second]
    if unsteady:
        return CorruptionReport(pairs, tuple(unsteady))
    (commonest, count), *_ = Counter(first for first, _ in pairs).most_common()
    if count == len(pairs):
        return CorruptionReport(pairs, ())
    has_majority = count * 2 > len(pairs)
    suspects = [rank for rank, (first, _) in enumerate(pairs) if not has_majority or first != commonest]
    return CorruptionReport(pairs, tuple(suspects))


def check(model: nn.Module, loss: Callable[[], Tensor]) -> CorruptionReport:
    """Make one step's gradients twice on every rank, and compare; a collective. Changes neither weights nor gradients.

    Args:
        model: The same on all ranks, and not wrapped: its gradients must not be averaged.
        loss: Forward of the same samples on all ranks. It is run with the same random numbers everywhere.

    Raises:
        PeerLost: a rank went away.
    """
    own = (_digest(model, loss), _digest(model, loss))
    everyone: list[tuple[str, str]] = [own]
    if dist.is_initialized():
        everyone = [own] * dist.get_world_size()
        with peers():
            dist.all_gather_object(everyone, own)
    return judge_digests(everyone)


def _digest(model: nn.Module, loss: Callable[[], Tensor]) -> str:
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    was_training = model.training
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = sorted({parameter.device.index for parameter in wanted if parameter.device.type == "cuda"})
    with torch.random.fork_rng(devices):
        torch.manual_seed(SEED)
        model.train()
        gradients = torch.autograd.grad(loss(), wanted, allow_unused=True)
    model.train(was_training)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    total = hashlib.sha256()
    # The weights as well: in a gradient a flipped low bit may be rounded away.
    for tensor in (*model.parameters(), *gradients):
        if tensor is not None:
            total.update(tensor.detach().cpu().flatten().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
