"""The suite of the `flights` dataset.

The bounds of daily figures are those of all 365 days of 2013, with room on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_column_values_to_be_unique import ExpectColumnValuesToBeUnique
from great_expectations.expectations.core.expect_column_values_to_match_regex import ExpectColumnValuesToMatchRegex
from great_expectations.expectations.core.expect_column_values_to_not_be_null import ExpectColumnValuesToNotBeNull

from data_pipelines.flights_columns import COLUMNS, NULLABLE, POSSIBLE
from data_pipelines.manifest import Manifest
from data_pipelines.quality.check import About, Check, Severity

AIRPORTS = ("EWR", "JFK", "LGA")
HERE = "data_pipelines/quality/flights_suite.py"

# Daily figure -> lowest, highest, what to do, severity. 2013: 291-998 rows, 4-79 % late.
DAILY: tuple[tuple[str, float, float, str, Severity], ...] = (
    ("rows", 100, 2000, "Check that the day was delivered whole and once", Severity.STOP),
    ("rows", 400, 1200, "Check the day for a storm or an incomplete delivery", Severity.WARN),
    ("rows_of_other_days", 0, 0, "Build the partition again: its dates don't fit its name", Severity.STOP),
    ("late_share", 0.005, 0.95, "Check the arrival delays of the raw files", Severity.STOP),
    ("late_share", 0.02, 0.85, "Look at the day: an extreme one, or wrong arrival delays", Severity.WARN),
    ("cancelled_share", 0, 0.3, "Look at the day: those that flew may not be typical", Severity.WARN),
    ("malformed_share", 0, 0.001, "Look for torn or shifted lines in the raw files", Severity.WARN),
    ("weather_missing_share", 0, 0.1, "Deliver the day's weather; training imputes it", Severity.WARN),
    ("tailnum_null_share", 0, 0.05, "Check the tail numbers of the raw files", Severity.WARN),
    ("plane_age_years_null_share", 0, 0.3, "Check whether the table of planes is complete", Severity.WARN),
    ("plane_seats_null_share", 0, 0.3, "Check whether the table of planes is complete", Severity.WARN),
    ("temp_f_null_share", 0, 0.1, "Check the day's weather; training imputes it", Severity.WARN),
    ("wind_speed_mph_null_share", 0, 0.1, "Check the day's weather; training imputes it", Severity.WARN),
)  # fmt: skip
CODES = {"carrier": r"^[A-Z0-9]{2}$", "dest": r"^[A-Z]{3}$"}


def checks() -> list[Check]:
    """Everything that is expected of the rows and of the days."""
    return [*_rows(), *_days()]


def daily_figures(manifests: Iterable[Manifest], rows: pd.DataFrame) -> pd.DataFrame:
    """One row per partition: the figures that `DAILY` bounds. `rows` has the dataset's columns and `partition`."""
    by_partition = dict(tuple(rows.groupby("partition")))
    return pd.DataFrame([_figures(manifest, by_partition.get(manifest.partition, rows[:0])) for manifest in manifests])


def _figures(manifest: Manifest, rows: pd.DataFrame) -> Mapping[str, object]:
    dropped = manifest.dropped
    flights = len(rows) + dropped.get("cancelled", 0) + dropped.get("diverted", 0)
    delivered = len(rows) + sum(dropped.values())
    return {
        "partition": manifest.partition,
        "rows": len(rows),
        "rows_of_other_days": int((rows["date"].astype(str) != manifest.partition).sum()),
        "late_share": _share(int(rows["late"].sum()), len(rows)),
        "cancelled_share": _share(dropped.get("cancelled", 0), flights),
        "malformed_share": _share(dropped.get("malformed", 0), delivered),
        "weather_missing_share": _share(int(rows["weather_missing"].sum()), len(rows)),
        **{f"{name}_null_share": _share(int(rows[name].isna().sum()), len(rows)) for name in sorted(NULLABLE)},
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")  # no rows: the bound on rows says so


def _rows() -> Iterable[Check]:
    for name in COLUMNS:
        if name not in NULLABLE:
            yield Check(
                name,
                About.ROWS,
                ExpectColumnValuesToNotBeNull(column=name),
                "never null (data_pipelines/flights_columns.py)",
                "Check the raw files for empty fields and the transform for a failed conversion.",
            )
    for name, (lowest, highest) in POSSIBLE.items():
        yield Check(
            name,
            About.ROWS,
            ExpectColumnValuesToBeBetween(column=name, min_value=lowest, max_value=highest),
            f"between {lowest:g} and {highest:g} (POSSIBLE in data_pipelines/flights_columns.py)",
            "Check the unit and the source of the values.",
        )
    yield Check(
        "flight_id",
        About.ROWS,
        ExpectColumnValuesToBeUnique(column="flight_id"),
        "unique (one row per flight)",
        "A delivery was counted twice: check how flights_transform.py tells deliveries of one flight.",
    )
    yield Check(
        "origin",
        About.ROWS,
        ExpectColumnValuesToBeInSet(column="origin", value_set=list(AIRPORTS)),
        f"one of {', '.join(AIRPORTS)} (AIRPORTS in {HERE})",
        "Check that the raw files are those of New York; add the airport if it is meant.",
    )
    for name, pattern in CODES.items():
        yield Check(
            name,
            About.ROWS,
            ExpectColumnValuesToMatchRegex(column=name, regex=pattern),
            f"codes like {pattern} (CODES in {HERE})",
            "Check the raw files for shifted columns.",
        )


def _days() -> Iterable[Check]:
    for figure, lowest, highest, advice, severity in DAILY:
        yield Check(
            figure,
            About.DAYS,
            ExpectColumnValuesToBeBetween(column=figure, min_value=lowest, max_value=highest),
            f"between {lowest:g} and {highest:g} on each day (DAILY in {HERE})",
            f"{advice}.",
            severity,
        )
