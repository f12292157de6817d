"""What a task's log says while its gang is away: one sentence for each thing that happened, progress now and then."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from gang_ledgers.ledger import GangRecord, HistoryRow, Progress
from gang_scheduler.progress import progress_sentence

Line = tuple[int, str]
"""A logging level and a sentence."""

# The task itself has logged these when it asked; renewed claims of rank 0 are told by the progress lines.
TOLD_ELSEWHERE = frozenset({"submitted"})
NEEDS_ATTENTION = frozenset({"lease-expired", "lapsed", "requeued", "released", "stop-asked"})


class Narrator:
    """Turns one gang's history, progress and rank-0 output into log lines, each told once.

    `now_s` in its methods is a monotonic clock in seconds; it only spaces the progress lines.
    """

    def __init__(self, after: int, progress_every_s: float = 3.0) -> None:
        self._last_number = after
        self._has_looked = False
        self._progress_every_s = progress_every_s
        self._end_told = ""
        self._place_told: tuple[int, int] | None = None
        self._progress_told: tuple[int | None, int | None] = (None, None)
        self._progress_due_s = float("-inf")

    def lines(
        self, printed: Iterable[str], rows: Sequence[HistoryRow], record: GangRecord | None, now_s: float
    ) -> list[Line]:
        """All that one look found, in the order in which it happened."""
        progress = list(self.progressed(record.attempt, record.progress, now_s)) if record else []
        before, after = (progress, []) if any(row.event == "ended" for row in rows) else ([], progress)
        # What the first look finds may be long past, and told before: a restarted triggerer watches anew.
        is_past, self._has_looked = not self._has_looked, True
        return [*self.printed(printed), *before, *self.happened(rows, is_past=is_past), *after]

    def happened(self, rows: Iterable[HistoryRow], *, is_past: bool = False) -> Iterator[Line]:
        """The rows that weren't told yet, oldest first; what is past is told with its time."""
        for row in rows:
            if row.number <= self._last_number:
                continue
            self._last_number = row.number
            if row.event in TOLD_ELSEWHERE:
                continue
            sentence = self._sentence(row)
            yield self._level(row), f"at {row.at:%H:%M:%S} UTC: {sentence}" if is_past else sentence

    def progressed(self, attempt: int, progress: Progress | None, now_s: float) -> Iterator[Line]:
        """A progress line if there is a new step and the last line is old enough."""
        if progress is None or progress.step is None or (attempt, progress.step) == self._progress_told:
            return
        is_last = progress.total_steps is not None and progress.step >= progress.total_steps
        if now_s < self._progress_due_s and not is_last:
            return
        self._progress_told = (attempt, progress.step)
        self._progress_due_s = now_s + self._progress_every_s
        yield logging.INFO, f"attempt {attempt}: {progress_sentence(progress)}"

    def placed(self, place: tuple[int, int] | None) -> Iterator[Line]:
        """Where it stands among those that wait, if that has changed."""
        if place is not None and place != self._place_told:
            self._place_told = place
            yield logging.INFO, f"place {place[0]} of {place[1]} in line; `phalanx plan` says when each may start"

    def printed(self, lines: Iterable[str]) -> Iterator[Line]:
        """What rank 0 wrote."""
        for line in lines:
            yield logging.INFO, f"[rank 0] {line}"

    def _sentence(self, row: HistoryRow) -> str:
        """The row's sentence, with what it is about, and without what the attempt's end has said already."""
        if row.event == "waiting":
            return f"waits, {row.details.get('reason', 'for capacity')}: {row.sentence}"
        if row.event == "admitted":
            return f"attempt {row.attempt} {row.sentence}"
        if row.event == "ended":
            self._end_told = row.sentence
            return f"attempt {row.attempt} ended: {row.sentence}"
        if row.event in ("requeued", "finished") and self._end_told and row.sentence.startswith(self._end_told):
            rest = row.sentence.removeprefix(self._end_told).lstrip("; ")
            self._end_told = ""
            return rest or f"submission {row.submission} {row.details.get('state', row.event)}"
        return row.sentence or f"attempt {row.attempt} {row.event}"

    @staticmethod
    def _level(row: HistoryRow) -> int:
        if row.event in NEEDS_ATTENTION:
            return logging.WARNING
        if row.event in ("ended", "finished"):
            outcome = str(row.details.get("state") or row.details.get("cause") or "")
            return logging.INFO if outcome in ("succeeded", "done") else logging.WARNING
        return logging.INFO
