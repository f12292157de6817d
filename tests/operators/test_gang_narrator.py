import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from gang_ledgers.ledger import HistoryRow, Progress
from gang_scheduler.progress import progress_sentence
from operators.gang_narrator import Narrator


def a_row(number: int, event: str, sentence: str = "", **details: Any) -> HistoryRow:
    return HistoryRow(number, datetime(2026, 1, 1, tzinfo=UTC), "d/r/t", 1, 2, event, sentence, details)


def test_each_row_is_told_once_and_in_order() -> None:
    narrator = Narrator(after=0)
    assert list(narrator.happened([a_row(1, "claimed", "one"), a_row(2, "launched", "two")])) == [
        (logging.INFO, "one"),
        (logging.INFO, "two"),
    ]
    assert [sentence for _, sentence in narrator.happened([a_row(2, "launched", "two"), a_row(5, "started", "3")])] == [
        "3"
    ]


def test_an_attempt_s_end_is_told_once_and_then_what_follows() -> None:
    killed = "rank 1 was killed by SIGKILL at step 57"
    rows = [
        a_row(0, "waiting", "asks 2 CPUs", reason="no capacity"),
        a_row(1, "admitted", "admitted whole: 2 workers"),
        a_row(2, "ended", killed),
        a_row(3, "requeued", f"{killed}; attempt 3 follows in 2 s"),
        a_row(4, "ended", "done"),
        a_row(5, "finished", "done", state="succeeded"),
    ]
    assert [sentence for _, sentence in Narrator(after=-1).happened(rows)] == [
        "waits, no capacity: asks 2 CPUs",
        "attempt 2 admitted whole: 2 workers",
        f"attempt 2 ended: {killed}",
        "attempt 3 follows in 2 s",
        "attempt 2 ended: done",
        "submission 1 succeeded",
    ]


def test_rows_that_the_task_told_itself_are_left_out() -> None:
    assert not list(Narrator(after=7).happened([a_row(7, "admitted", "old"), a_row(8, "submitted", "told")]))


@pytest.mark.parametrize(
    ("row", "level"),
    [
        (a_row(1, "launched", "off it goes"), logging.INFO),
        (a_row(1, "requeued", "again"), logging.WARNING),
        (a_row(1, "lease-expired", "silent"), logging.WARNING),
        (a_row(1, "finished", "well", state="succeeded"), logging.INFO),
        (a_row(1, "finished", "badly", state="failed"), logging.WARNING),
    ],
    ids=lambda value: value.event if isinstance(value, HistoryRow) else "",
)
def test_what_needs_attention_is_a_warning(row: HistoryRow, level: int) -> None:
    assert list(Narrator(after=0).happened([row])) == [(level, row.sentence)]


def test_progress_is_told_when_it_is_new_and_not_too_often() -> None:
    narrator = Narrator(after=0, progress_every_s=3)
    told = [
        bool(list(narrator.progressed(attempt, Progress(step=step, total_steps=9), now_s)))
        for attempt, step, now_s in [
            (1, 1, 0.0),  # the first
            (1, 2, 1.0),  # too early
            (1, 3, 3.0),
            (1, 3, 9.0),  # the same step
            (2, 3, 12.0),  # the same step of another attempt
            (2, 9, 12.5),  # the last step, however early
        ]
    ]
    assert told == [True, False, True, False, True, True]


def test_nothing_is_told_of_progress_before_the_first_step() -> None:
    narrator = Narrator(after=0)
    assert not list(narrator.progressed(1, None, 0.0))
    assert not list(narrator.progressed(1, Progress(phase="starting"), 0.0))


def test_a_progress_line_holds_step_loss_speed_remaining_time_and_checkpoint() -> None:
    progress = Progress(
        step=120, total_steps=400, loss=0.43127, throughput_samples_per_s=12345.6, eta_s=35.2, last_committed_step=100
    )
    assert progress_sentence(progress) == (
        "step 120/400, loss 0.4313, 12,346 samples/s, ETA 0:00:35, checkpoint at step 100"
    )


def test_a_place_in_line_is_told_when_it_has_changed() -> None:
    narrator = Narrator(0)
    told = [list(narrator.placed(place)) for place in (None, (3, 12), (3, 12), None, (1, 9))]
    assert [line[0][1] if line else "" for line in told] == [
        "",
        "place 3 of 12 in line; `phalanx plan` says when each may start",
        "",
        "",
        "place 1 of 9 in line; `phalanx plan` says when each may start",
    ]


def test_what_happened_before_the_first_look_is_told_with_its_time() -> None:
    narrator = Narrator(after=0)
    told = narrator.lines([], [a_row(1, "launched", "one")], None, 0.0)
    assert told == [(logging.INFO, "at 00:00:00 UTC: one")]
    assert narrator.lines([], [a_row(2, "launched", "two")], None, 1.0) == [(logging.INFO, "two")]
