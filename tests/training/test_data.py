from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from tests.training.day_partitions import flights_of, write_partition
from training.data import read_flights
from training.exit_codes import BadData
from training.partitions import refer
from training.recipes.flights_spec import Partition

DAY = date(2013, 1, 1)


def written(tmp_path: Path, table: pa.Table) -> Partition:
    return refer(write_partition(tmp_path, DAY, table))


def cast_to(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))


def test_rows_come_in_the_order_of_the_partitions(four_days: list[Partition]) -> None:
    one_by_one = [read_flights([partition]) for partition in four_days]
    assert read_flights(four_days).equals(pa.concat_tables(one_by_one).combine_chunks())


def test_columns_beside_those_read_and_other_encodings_do_no_harm(tmp_path: Path) -> None:
    table = flights_of(DAY, 50)
    plain = read_flights([written(tmp_path / "plain", table)])
    stored = cast_to(table, "carrier", pa.dictionary(pa.int32(), pa.string()))
    stored = cast_to(stored, "dest", pa.large_string()).append_column("gate", pa.array(["A"] * 50))
    assert read_flights([written(tmp_path / "other", stored)]).equals(plain)


@pytest.mark.parametrize(
    ("damaged", "expected"),
    [
        (lambda table: table.drop_columns(["origin"]), "column 'origin': expected string, found no such column"),
        (lambda table: cast_to(table, "flight", pa.string()), "column 'flight': expected int32, found string"),
        (lambda table: cast_to(table, "temp_f", pa.float32()), "column 'temp_f': expected double, found float"),
        (
            lambda table: table.set_column(8, "carrier_", table["carrier"]).rename_columns({"carrier_": "tail"}),
            "column 'tailnum': expected string, found no such column",
        ),
        (
            lambda table: table.set_column(9, "origin", pa.array([None] * len(table), pa.string())),
            "column 'origin': expected no nulls, found 50 of 50",
        ),
        (
            lambda table: table.set_column(24, "late", pa.array([7] * len(table), pa.int8())),
            r"column 'late': expected 0 or 1, found \[7\]",
        ),
    ],
    ids=["missing", "number as text", "less precise", "renamed", "nulls", "no label"],
)
def test_a_changed_schema_names_file_column_expected_and_found(tmp_path: Path, damaged: object, expected: str) -> None:
    assert callable(damaged)
    partition = written(tmp_path, damaged(flights_of(DAY, 50)))
    with pytest.raises(BadData, match=expected) as caught:
        read_flights([partition])
    assert "part-0.parquet" in str(caught.value)
    assert "training/data.py" in str(caught.value)
