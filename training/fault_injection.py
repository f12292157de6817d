"""Faults on demand, for tests of recovery: `PHALANX_FAIL_AT=<rank>:<step>[:kill|raise|hang|flip[:<attempt>]]`.

The fault strikes after the rank has made that step and before any checkpoint of it, once earlier ones are written, and
only in one of the run folder's attempts, the first if none is named, so that a relaunch with the same environment
recovers. No launcher of ours passes the variable on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from training.exit_codes import BadSpec

if TYPE_CHECKING:
    from torch import nn

VARIABLE = "PHALANX_FAIL_AT"
HOW = ("kill", "raise", "hang", "flip")


class InjectedFault(Exception):
    """What "raise" raises: stands for any error in a training program."""


@dataclass(frozen=True, slots=True)
class FaultInjection:
    """Where a fault strikes, and how: as an uncatchable end, an error, a rank that hangs, or a flipped bit."""

    rank: int
    step: int
    how: str = "kill"
    attempt: int = 1

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self | None:
        """The fault that the environment asks for, if any.

        Raises:
            BadSpec: it can't be read.
        """
        text = env.get(VARIABLE)
        if not text:
            return None
        rank, _, rest = text.partition(":")
        step, _, rest = rest.partition(":")
        how, _, attempt = rest.partition(":")
        if not (all(part.isdecimal() for part in (rank, step, attempt or "1")) and (how or "kill") in HOW):
            raise BadSpec(f"environment: {VARIABLE} = {text!r} is not <rank>:<step>[:{'|'.join(HOW)}[:<attempt>]].")
        return cls(int(rank), int(step), how or "kill", int(attempt or 1))

    def is_at(self, step: int, attempt: int) -> bool:
        """Whether this is the step, on whichever rank."""
        return (step, attempt) == (self.step, self.attempt)

    def strike(self, rank: int, step: int, attempt: int, model: nn.Module) -> None:
        """Fail if this is the place; "flip" flips the lowest exponent bit of the model's first weight."""
        if rank != self.rank or not self.is_at(step, attempt):
            return
        if self.how == "raise":
            raise InjectedFault(f"fault asked for at rank {rank}, step {step} ({VARIABLE})")
        if self.how == "hang":
            while True:
                time.sleep(3600)
        if self.how == "flip":
            next(model.parameters()).detach().view(-1)[:1].numpy().view("uint32")[0] ^= 1 << 23
            return
        os.kill(os.getpid(), signal.SIGKILL)
