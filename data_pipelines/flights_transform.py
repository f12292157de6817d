"""The Spark part: raw rows of many days in, one row per flight out, each with what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from data_pipelines.flights_columns import COLUMNS, LATE_AFTER_MINUTES, NULLED_WHEN_IMPOSSIBLE, POSSIBLE, WEATHER
from data_pipelines.raw_flights import FLIGHT_COLUMNS, NULL, PLANE_COLUMNS, WEATHER_COLUMNS

CORRUPT = "_corrupt_record"
DAY = "_day"  # of the folder that the row was delivered in
FATE = "_fate"  # why the row is dropped; null: it is kept
NULLED = "_nulled"  # number of impossible values that became null

MALFORMED, OTHER_DAY, DUPLICATE, CANCELLED, DIVERTED = "malformed", "other_day", "duplicate", "cancelled", "diverted"
FATES = (MALFORMED, OTHER_DAY, DUPLICATE, CANCELLED, DIVERTED)

ARROW_TO_SPARK = {"bool": "boolean", "date32[day]": "date", "int8": "tinyint", "int32": "int"}


def flights(
    spark: SparkSession, flight_files: Sequence[Path], weather_files: Sequence[Path], plane_files: Sequence[Path]
) -> DataFrame:
    """Every raw row: the columns of the dataset, its day, and its fate; sorted by day and flight."""
    raw = _read(spark, flight_files, FLIGHT_COLUMNS)
    named = raw.withColumns(
        {
            DAY: F.regexp_extract("_file", r"day=(\d{4}-\d{2}-\d{2})/", 1),
            "date": F.make_date("year", "month", "day"),
            "flight_id": F.format_string(
                "%s%d-%s-%s-%04d-%02d-%02d-%04d",
                *("carrier", "flight", "origin", "dest", "year", "month", "day", "sched_dep_time"),
            ),
        }
    )
    # Of several deliveries of a flight the one in the file whose name sorts last counts; the rest breaks ties.
    newest_first = Window.partitionBy("flight_id", CORRUPT).orderBy(
        F.col("_file").desc(), *(F.col(name).desc_nulls_last() for name in FLIGHT_COLUMNS)
    )
    ranked = named.withColumn("_rank", F.row_number().over(newest_first))
    joined = _with_plane(_with_weather(ranked, spark, weather_files), spark, plane_files)
    shaped = _shaped(joined)
    return shaped.orderBy(DAY, "flight_id", FATE)


def _with_weather(rows: DataFrame, spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    # A clock set back gives an hour two observations: the earlier one counts.
    observed = _one_each(_read(spark, files, WEATHER_COLUMNS), ["origin", "year", "month", "day", "hour"], "time_hour")
    hourly = observed.select(
        F.col("origin").alias("_origin"),
        F.make_date("year", "month", "day").alias("_weather_date"),
        F.col("hour").alias("_weather_hour"),
        *(F.col(raw).alias(ours) for raw, ours in WEATHER.items()),
    )
    return rows.join(
        F.broadcast(hourly),
        (F.col("origin") == F.col("_origin"))
        & (F.col("date") == F.col("_weather_date"))
        & (F.floor(F.col("sched_dep_time") / 100) == F.col("_weather_hour")),
        "left",
    )


def _with_plane(rows: DataFrame, spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    planes = _one_each(_read(spark, files, PLANE_COLUMNS), ["tailnum"], "year").select(
        F.col("tailnum").alias("_tailnum"), F.col("year").alias("_plane_year"), F.col("seats").alias("plane_seats")
    )
    return rows.join(F.broadcast(planes), F.col("tailnum") == F.col("_tailnum"), "left")


def _shaped(rows: DataFrame) -> DataFrame:
    date = F.col("date")
    made: Mapping[str, Column] = {
        "sched_dep_minute": _minute_of_day("sched_dep_time"),
        "sched_arr_minute": _minute_of_day("sched_arr_time"),
        "day_of_week": F.weekday(date) + 1,
        "distance_miles": F.col("distance"),
        "plane_age_years": F.col("year") - F.col("_plane_year"),
        "weather_missing": F.col("_weather_hour").isNull(),
        "late": F.col("arr_delay") > LATE_AFTER_MINUTES,
    }
    fate = (
        F.when(F.col(CORRUPT).isNotNull() | F.col("flight_id").contains("null") | date.isNull(), MALFORMED)
        .when(date.cast("string") != F.col(DAY), OTHER_DAY)
        .when(F.col("_rank") > 1, DUPLICATE)
        .when(F.col("dep_time").isNull(), CANCELLED)
        .when(F.col("arr_delay").isNull(), DIVERTED)
    )
    columns, impossible = [], []
    for name, arrow_type in COLUMNS.items():
        value = made.get(name, F.col(name)).cast(ARROW_TO_SPARK.get(arrow_type, arrow_type))
        if name in NULLED_WHEN_IMPOSSIBLE:
            is_possible = value.between(*POSSIBLE[name])
            impossible.append((~is_possible & value.isNotNull()).cast("int"))
            value = F.when(is_possible, value)
        columns.append(value.alias(name))
    nulled = sum((F.coalesce(one, F.lit(0)) for one in impossible), F.lit(0))
    return rows.select(*columns, F.col(DAY), fate.alias(FATE), nulled.alias(NULLED))


def _minute_of_day(hhmm: str) -> Column:
    return F.floor(F.col(hhmm) / 100) * 60 + F.col(hhmm) % 100


def _one_each(rows: DataFrame, key: Sequence[str], lowest: str) -> DataFrame:
    """One row per key: the one with the lowest value of a column; the same one each time."""
    others = [name for name in rows.columns if name not in key]
    order = Window.partitionBy(*key).orderBy(lowest, *(name for name in others if name != lowest))
    return rows.withColumn("_rank", F.row_number().over(order)).where("_rank = 1").drop("_rank")


def _read(spark: SparkSession, files: Sequence[Path], columns: Mapping[str, str]) -> DataFrame:
    if not files:
        return spark.range(0).select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    rows = spark.read.csv(
        [f"file:{path}" for path in files],
        schema=f"{schema}, {CORRUPT} string",
        header=True,
        nullValue=NULL,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=CORRUPT,
    )
    return rows.withColumn("_file", F.col("_metadata.file_path"))
