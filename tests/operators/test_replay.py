from datetime import UTC, date, datetime

import pytest

from operators.replay import NoSuchDay, days_of


def at_two(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, 2, tzinfo=UTC)


def test_the_interval_stands_for_the_day_on_which_it_starts() -> None:
    assert days_of(at_two(2026, 11, 30), 3, None).day == date(2026, 11, 30)


def test_the_window_ends_the_day_before_and_is_mapped_to_the_replayed_year() -> None:
    days = days_of(at_two(2026, 11, 30), 3, 2013)
    assert days.day == date(2013, 11, 30)
    assert days.window == (date(2013, 11, 27), date(2013, 11, 28), date(2013, 11, 29))
    assert days.all_days == (*days.window, days.day)


def test_a_window_starts_on_the_first_of_january_when_a_year_is_replayed() -> None:
    assert days_of(at_two(2026, 1, 3), 28, 2013).window == (date(2013, 1, 1), date(2013, 1, 2))


def test_a_window_reaches_into_the_year_before_when_none_is_replayed() -> None:
    assert days_of(at_two(2026, 1, 1), 1, None).window == (date(2025, 12, 31),)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        pytest.param(at_two(2028, 2, 29), "2028-02-29 has no counterpart in 2013", id="29 February"),
        pytest.param(at_two(2026, 1, 1), "2013-01-01 is the first day", id="nothing lies before the first day"),
    ],
)
def test_a_run_is_skipped_with_a_reason_when_the_year_lacks_its_days(start: datetime, said: str) -> None:
    with pytest.raises(NoSuchDay, match=said):
        days_of(start, 28, 2013)
