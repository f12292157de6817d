"""What one rank sees of itself while it trains: the loop says where it is, this says what that means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from training.seeing.hang_stacks import HangStacks
from training.seeing.memory import memory_now
from training.seeing.peak_flops import own_peak_flops, utilisation
from training.seeing.profiling import Profiling
from training.seeing.requests import NewRequests
from training.seeing.slow_ranks import slow_ranks
from training.seeing.step_clock import StepClock
from training.seeing.stragglers import gather_seconds, straggler_scores
from training.world import World

SCORES_EVERY_STEPS = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """What a heartbeat says beside progress; None where it is not known.

    `step_seconds` are means over the steps since the last heartbeat, by part; `straggler_scores` by rank, 1 being the
    median. `mfu` is a share of 1.
    """

    tokens_per_s: float | None
    mfu: float | None
    rss_bytes: int
    gpu_peak_bytes: int | None
    step_seconds: dict[str, float] | None
    straggler_scores: list[float] | None


class Watch:
    """One rank's clock, hang stacks, profiles, straggler scores and asked-for corruption checks; open while it trains.

    `tokens_per_sample` and `flops_per_sample` (forward and backward) are the recipe's, where it knows them.
    """

    def __init__(
        self,
        world: World,
        say: Callable[[str], None],
        tokens_per_sample: int | None = None,
        flops_per_sample: float | None = None,
    ) -> None:
        self.clock = StepClock()
        self._world, self._say = world, say
        self._tokens_per_sample, self._flops_per_sample = tokens_per_sample, flops_per_sample
        self._stacks = HangStacks(world.launch_dir, world.rank)
        self._profiling = Profiling(world.run_dir, world.launch_dir, world.rank)
        self._checks = NewRequests(world.run_dir, "corruption-check")
        self._beat_before = self._scored_before = self.clock.read()
        self._scores: list[float] | None = None
        self._told_slow = ""

    def __enter__(self) -> Self:
        self._stacks.__enter__()
        return self

    def alive(self) -> None:
        """Say that the rank makes progress, for what takes long and is no step."""
        self._stacks.alive()

    def step_made(self, step: int) -> None:
        """Note a step; every hundredth is a collective, so all ranks say so of the same steps."""
        self.clock.step()
        self._stacks.alive()
        trace = self._profiling.step(step)
        if trace is not None:
            self._say(f"profile written: {trace}")
        if step % SCORES_EVERY_STEPS == 0:
            self._score()

    def is_check_asked(self) -> bool:
        """Whether somebody has asked for a corruption check since the last look; only rank 0's answer counts."""
        return self._checks.next() is not None

    def seen(self, samples_per_s: float | None) -> Seen:
        """What there is to see, with the step split since the last call."""
        now = self.clock.read()
        split = now.split_since(self._beat_before)
        if split is not None:
            self._beat_before = now
            split = {part: round(seconds, 6) for part, seconds in split.items()}
        memory = memory_now()
        tokens, flops, speed = self._tokens_per_sample, self._flops_per_sample, samples_per_s
        mfu = utilisation(speed * flops, own_peak_flops(), self._world.world_size) if speed and flops else None
        return Seen(
            tokens_per_s=round(speed * tokens, 1) if speed and tokens else None,
            mfu=None if mfu is None else round(mfu, 4),
            rss_bytes=memory.rss_bytes,
            gpu_peak_bytes=memory.gpu_peak_bytes,
            step_seconds=split,
            straggler_scores=self._scores,
        )

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._profiling.close()
        self._stacks.__exit__(exc_type, exc, trace)

    def _score(self) -> None:
        now = self.clock.read()
        self._scores = straggler_scores(gather_seconds(now.own_seconds_since(self._scored_before)))
        self._scored_before = now
        slow = slow_ranks(self._scores)
        if slow and slow != self._told_slow:
            self._say(f"slower than the others: {slow}")
        self._told_slow = slow
