"""SparkPreprocessOperator: builds the partitions that a run reads, as far as they are missing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from operators import places
from operators.batch import BatchOperator
from operators.gang import owner_of
from operators.params import TrainingParams, refuse_unknown
from operators.preflight import refuse_impossible_gangs
from operators.replay import IntervalDays, NoSuchDay, days_of, last_interval_start


class SparkPreprocessOperator(BatchOperator):
    """Builds the interval's partition and the missing ones of its training window, all in one Spark session.

    A partition that is committed for the same inputs and code is left as it is; two runs that need the same one build
    it once. Which days: `operators.replay`. The run is skipped, with the reason, if its day can't be replayed.

    Before that, gangs that the run will ask for and that could never start end it.

    Returns the days and, for each, the manifest's path and digest.

    Args:
        job: the module that is run, `python -m JOB --data-dir D --days A,B,C --json-result F`.
        window_days: how many days before the interval's day are trained on; None: the run's parameter.
        replay_year: the year that the days are taken from; None: the run's parameter.
    """

    template_fields: Collection[str] = ("job", "window_days", "replay_year")
    ui_color = "#f9e3c1"

    def __init__(
        self, *, job: str, window_days: int | str | None = None, replay_year: int | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.window_days = window_days
        self.replay_year = replay_year

    def execute(self, context: Context) -> dict[str, Any]:
        """Build what is missing."""
        days = self._days(context)
        refuse_impossible_gangs(context, self.log)
        named = [day.isoformat() for day in days.all_days]
        self.log.info("%s", f"day {named[-1]}, trained on {named[0]} to {named[-2]} ({len(named) - 1} days)")
        result = self.run_job(self.job, "--data-dir", places.data_dir(), "--days", ",".join(named))
        partitions = {partition["partition"]: partition for partition in result["partitions"]}
        if lacking := [day for day in named if day not in partitions]:
            raise AirflowFailException(
                f"{self.job} was asked for {len(named)} days and says nothing of {', '.join(lacking)}."
            )
        return {
            "day": named[-1],
            "window": named[:-1],
            "manifests": {day: partitions[day]["manifest"] for day in named},
            "digests": {day: partitions[day]["digest"] for day in named},
            "asked_with": owner_of(context),
        }

    def _days(self, context: Context) -> IntervalDays:
        refuse_unknown(context["dag_run"].conf, context["dag"].params, context["ti"].dag_id)
        params = TrainingParams.read(
            {
                **context["params"],
                **({} if self.window_days is None else {"window_days": self.window_days}),
                **({} if self.replay_year is None else {"replay_year": self.replay_year}),
            }
        )
        start = context.get("data_interval_start") or self._last_interval_start(context)
        try:
            return days_of(start, params.window_days, params.replay_year)
        except NoSuchDay as reason:
            raise AirflowSkipException(str(reason)) from None

    def _last_interval_start(self, context: Context) -> datetime:
        """For a run that was triggered without a logical date, to which Airflow gives no interval."""
        cron = getattr(context["dag"].timetable, "expression", None)
        if cron is None:
            raise AirflowFailException(
                f"DAG {context['ti'].dag_id!r} gave its run no data interval, by which {self.task_id!r} knows its day. "
                f"Use CronDataIntervalTimetable as the DAG's schedule, or give the run a logical date."
            )
        start = last_interval_start(cron, context["dag_run"].run_after)
        self.log.info("%s", f"the run has no logical date: the last complete interval is taken, from {start}")
        return start
