"""Proves from the history that nothing of a gang ever ran twice at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gang_ledgers.ledger import HistoryRow
from gang_scheduler.gang import AttemptKey


@dataclass(frozen=True, slots=True)
class Overlap:
    """An attempt that was started while another one of its gang had not ended."""

    started: HistoryRow
    still_live: HistoryRow

    def __str__(self) -> str:
        return (
            f"{_key(self.started)} was started (history row {self.started.number}) while {_key(self.still_live)}, "
            f"started in row {self.still_live.number}, had not ended"
        )


def overlaps(rows: Iterable[HistoryRow]) -> list[Overlap]:
    """Every overlap of two attempts of one gang, of the same submission or of different ones; none is the proof.

    An attempt is live from `started` to `ended`. One whose end was never recorded (its gang was finished by a limit
    while it was out of contact) counts as live for ever, since nothing proves the contrary.
    """
    live: dict[str, dict[AttemptKey, HistoryRow]] = {}
    found: list[Overlap] = []
    for row in sorted(rows, key=lambda row: row.number):
        of_gang = live.setdefault(row.gang_id, {})
        if row.event == "started":
            found += [Overlap(row, other) for key, other in of_gang.items() if key != _key(row)]
            of_gang[_key(row)] = row
        elif row.event == "ended":
            of_gang.pop(_key(row), None)
    return found


def _key(row: HistoryRow) -> AttemptKey:
    return AttemptKey(row.gang_id, row.submission, row.attempt)
