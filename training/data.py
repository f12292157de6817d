"""Flights, read from verified partitions into one table, its schema checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from training.exit_codes import BadData
from training.partitions import VerifiedPartition, verify
from training.recipes.flights_spec import Partition

# What the trainer reads of a partition. Other columns may be there; these must, with these types.
SCHEMA = pa.schema(
    [
        pa.field("sched_dep_minute", pa.int32(), nullable=False),
        pa.field("sched_arr_minute", pa.int32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string(), nullable=False),
        pa.field("distance_miles", pa.float64(), nullable=False),
        pa.field("plane_age_years", pa.float64()),
        pa.field("plane_seats", pa.float64()),
        pa.field("temp_f", pa.float64()),
        pa.field("dewpoint_f", pa.float64()),
        pa.field("humidity_pct", pa.float64()),
        pa.field("wind_dir_deg", pa.float64()),
        pa.field("wind_speed_mph", pa.float64()),
        pa.field("wind_gust_mph", pa.float64()),
        pa.field("precip_in", pa.float64()),
        pa.field("pressure_mb", pa.float64()),
        pa.field("visibility_mi", pa.float64()),
        pa.field("weather_missing", pa.bool_(), nullable=False),
        pa.field("late", pa.int8(), nullable=False),
    ]
)
NEXT_STEP = (
    "Give the column back its type in data_pipelines and build the partition again, or, if the change is meant, follow "
    "it in training/data.py (SCHEMA)."
)


def read_flights(partitions: Sequence[Partition]) -> pa.Table:
    """All rows of the partitions, in the order of the partitions, their files and the rows in them.

    Raises:
        BadData: a file is missing or changed, or a column is; names file, column, what was expected and what was found.
    """
    return pa.concat_tables([_read_partition(verify(partition)) for partition in partitions]).combine_chunks()


def _read_partition(partition: VerifiedPartition) -> pa.Table:
    table = pa.concat_tables([SCHEMA.empty_table(), *(_read_file(partition, path) for path in partition.files)])
    if table.num_rows != partition.rows:
        raise BadData(
            f"partition {partition.date}: {table.num_rows} rows read, {partition.rows} in its manifest. "
            "Build the partition again."
        )
    return table


def _read_file(partition: VerifiedPartition, path: Path) -> pa.Table:
    where = f"partition {partition.date}: file {path}"
    try:
        found = pq.read_schema(path)
        _check_types(where, found)
        table = pq.read_table(path, columns=SCHEMA.names, partitioning=None)
    except pa.ArrowException as error:
        raise BadData(f"{where} is no readable Parquet: {error}. Build the partition again.") from error
    for field in SCHEMA:
        if not field.nullable and table[field.name].null_count:
            nulls = table[field.name].null_count
            raise BadData(
                f"{where}: column {field.name!r}: expected no nulls, found {nulls} of {len(table)}. {NEXT_STEP}"
            )
    if len(table) and not pc.all(pc.is_in(table["late"], pa.array([0, 1], pa.int8()))).as_py():
        raise BadData(
            f"{where}: column 'late': expected 0 or 1, found {pc.unique(table['late']).to_pylist()}. {NEXT_STEP}"
        )
    return table.cast(SCHEMA)


def _check_types(where: str, found: pa.Schema) -> None:
    for field in SCHEMA:
        index = found.get_field_index(field.name)
        if index < 0:
            raise BadData(f"{where}: column {field.name!r}: expected {field.type}, found no such column. {NEXT_STEP}")
        if _plain(found.field(index).type) != field.type:
            actual = found.field(index).type
            raise BadData(f"{where}: column {field.name!r}: expected {field.type}, found {actual}. {NEXT_STEP}")


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without how it is stored: a dictionary of strings, or large ones, are strings."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) else kind
