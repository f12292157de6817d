"""Which calendar days one data interval stands for: its own day, and the training window before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from croniter import croniter  # type: ignore[import-untyped]  # it ships no types


class NoSuchDay(ValueError):
    """The interval has no counterpart in the replayed year; the message is the reason to skip the run."""


@dataclass(frozen=True, slots=True)
class IntervalDays:
    """`day` is evaluated; `window` (oldest first, it ends the day before) is trained on."""

    day: date
    window: tuple[date, ...]

    @property
    def all_days(self) -> tuple[date, ...]:
        """The window and then the day: every partition that the run reads."""
        return (*self.window, self.day)


def last_interval_start(cron: str, run_after: datetime) -> datetime:
    """Where the last complete interval of a cron schedule (UTC) started; what a run without a logical date works on."""
    end = croniter(cron, run_after + timedelta(seconds=1)).get_prev(datetime)
    start: datetime = croniter(cron, end).get_prev(datetime)
    return start


def interval_day(data_interval_start: datetime) -> date:
    """The calendar day that an interval stands for: the UTC date on which it starts.

    A schedule of "0 0 * * *" makes the interval that day, so the dates of a backfill are the days it works on.
    """
    return data_interval_start.date()


def replayed(day: date, replay_year: int | None) -> date:
    """The same calendar day in `replay_year`; the day itself if no year is replayed.

    Raises:
        NoSuchDay: it is a 29 February and the replayed year has none.
    """
    if replay_year is None:
        return day
    try:
        return day.replace(year=replay_year)
    except ValueError:
        raise NoSuchDay(
            f"{day.isoformat()} has no counterpart in {replay_year}, which is no leap year (replay_year in the run's "
            f"parameters); the run is skipped. Trigger another day, or set replay_year to a leap year that has data."
        ) from None


def days_of(data_interval_start: datetime, window_days: int, replay_year: int | None) -> IntervalDays:
    """The interval's day and the `window_days` days before it.

    A replayed year is all the data there is, so its window starts on 1 January at the earliest.

    Raises:
        NoSuchDay: the day doesn't exist in the replayed year, or nothing lies before it.
    """
    day = replayed(interval_day(data_interval_start), replay_year)
    window = [day - timedelta(days=back) for back in range(window_days, 0, -1)]
    if replay_year is not None:
        window = [past for past in window if past.year == replay_year]
    if not window:
        raise NoSuchDay(
            f"{day.isoformat()} is the first day of the replayed year {replay_year}: no day before it to train on; "
            f"the run is skipped. The next day's run trains on this one."
        )
    return IntervalDays(day, tuple(window))
