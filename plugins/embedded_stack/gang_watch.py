"""Tells a person who follows a run how its gangs get on: progress now and then, and why one waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gang_ledgers.ledger import GangRecord
from gang_scheduler.gang_state import WAITS_FOR_CAPACITY, GangState
from gang_scheduler.progress import progress_sentence

EVERY_S = 5.0
Look = Callable[[Sequence[str]], Mapping[str, GangRecord]]


@dataclass
class _Told:
    """What was said of a gang: which step of which attempt, why it waits, and when progress may be told again."""

    step: tuple[int, int, int] | None = None
    wait: str = ""
    due_s: float = float("-inf")


@dataclass
class GangWatch:
    """Says nothing twice, and of one gang's progress at most a line every `every_s` seconds.

    `look` gives the newest submission of each known gang; what it raises is the caller's.
    """

    look: Look
    every_s: float = EVERY_S
    _told: dict[str, _Told] = field(default_factory=dict)

    def lines(self, gang_ids: Sequence[str], now_s: float) -> Iterator[tuple[str, str]]:
        """Gang id and what is new of it, at `now_s` of a monotonic clock."""
        for gang_id, record in sorted(self.look(gang_ids).items() if gang_ids else ()):
            told = self._told.setdefault(gang_id, _Told())
            for line in (*self._waits(record, told), *self._progressed(record, told, now_s)):
                yield gang_id, line

    @staticmethod
    def _waits(record: GangRecord, told: _Told) -> Iterator[str]:
        sentence = record.wait_sentence if record.state in WAITS_FOR_CAPACITY else ""
        if sentence and sentence != told.wait:
            yield f"waiting: {sentence}"
        told.wait = sentence

    def _progressed(self, record: GangRecord, told: _Told, now_s: float) -> Iterator[str]:
        progress = record.progress
        if record.state is not GangState.RUNNING or progress is None or not progress.step or now_s < told.due_s:
            return
        step = (record.submission, record.attempt, progress.step)
        if step != told.step:
            told.step, told.due_s = step, now_s + self.every_s
            yield (f"attempt {record.attempt}: " if record.attempt > 1 else "") + progress_sentence(progress)
