"""Partitions of made-up flights, laid out as the pipelines do it, with neither Spark nor the source's files."""

from __future__ import annotations

import hashlib
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from training.partitions import refer
from training.recipes.flights_spec import FlightsParams, FlightsSpec, Partition

FIRST_DAY = date(2013, 1, 1)
COLUMNS = pa.schema(
    [
        ("flight_id", pa.string()),
        ("date", pa.date32()),
        ("sched_dep_minute", pa.int32()),
        ("sched_arr_minute", pa.int32()),
        ("month", pa.int32()),
        ("day_of_week", pa.int32()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        *((name, pa.float64()) for name in ("distance_miles", "plane_age_years", "plane_seats", "temp_f")),
        *((name, pa.float64()) for name in ("dewpoint_f", "humidity_pct", "wind_dir_deg", "wind_speed_mph")),
        *((name, pa.float64()) for name in ("wind_gust_mph", "precip_in", "pressure_mb", "visibility_mi")),
        ("weather_missing", pa.bool_()),
        ("late", pa.int8()),
    ]
)
MAY_BE_NULL = ("plane_age_years", "plane_seats", "temp_f", "wind_gust_mph", "wind_dir_deg", "pressure_mb")


def flights_of(day: date, rows: int) -> pa.Table:
    """Flights of a day: later ones, and one carrier's, are late more often; some values are missing."""
    random = np.random.default_rng(day.toordinal())
    carrier = random.choice(["AA", "B6", "UA"], rows)
    minute = random.integers(300, 1380, rows)
    logit = -2.5 + 2.0 * (minute - 300) / 1080 + 1.5 * (carrier == "B6")
    columns: dict[str, Any] = {field.name: random.uniform(0, 50, rows) for field in COLUMNS}
    columns |= {name: np.where(random.random(rows) < 0.2, None, columns[name]) for name in MAY_BE_NULL}
    tails = random.choice(["N1", "N2", "N3", "N4"], rows)
    columns |= {
        "flight_id": [f"{day}-{number}" for number in range(rows)],
        "date": [day] * rows,
        "sched_dep_minute": minute,
        "sched_arr_minute": (minute + 120) % 1440,
        "month": [day.month] * rows,
        "day_of_week": [day.isoweekday()] * rows,
        "carrier": carrier,
        "flight": random.integers(1, 40, rows),
        "tailnum": [name if known else None for name, known in zip(tails, random.random(rows) >= 0.1, strict=True)],
        "origin": random.choice(["EWR", "JFK", "LGA"], rows),
        "dest": random.choice(["ATL", "LAX", "ORD", "SFO"], rows),
        "weather_missing": random.random(rows) < 0.05,
        "late": random.random(rows) < 1 / (1 + np.exp(-logit)),
    }
    arrays = [pa.array(list(columns[field.name])).cast(field.type) for field in COLUMNS]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def write_partition(data_dir: Path, day: date, table: pa.Table) -> Path:
    """Write a day as one Parquet file and its manifest; returns where the manifest lies."""
    folder = data_dir / "flights" / f"day={day}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "part-0.parquet")
    return write_manifest(folder, day, table)


def write_manifest(folder: Path, day: date, table: pa.Table) -> Path:
    """Describe what lies in the folder now."""
    content = (folder / "part-0.parquet").read_bytes()
    file = {"path": "part-0.parquet", "bytes": len(content), "rows": len(table)}
    file["sha256"] = hashlib.sha256(content).hexdigest()
    manifest = {
        "schema_version": 1,
        "dataset": "flights",
        "partition": day.isoformat(),
        "files": [file],
        "rows": len(table),
        "columns": {field.name: str(field.type) for field in table.schema},
        "inputs": [],
        "code_version": "made up",
        "dropped": {},
        "created_at": "2013-12-31T00:00:00Z",
    }
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest))
    return path


def write_days(data_dir: Path, count: int, rows: int = 200, first: date = FIRST_DAY) -> list[Partition]:
    """Partitions of `count` days in a row."""
    days = [first + timedelta(days=number) for number in range(count)]
    return [refer(write_partition(data_dir, day, flights_of(day, rows))) for day in days]


def a_spec(partitions: list[Partition], **changes: Any) -> FlightsSpec:
    """A small run over the partitions: 24 steps for four days of 200 flights."""
    params = {"epochs": 3, "global_batch_size": 100, "hidden": 8, "embedding_dim": 4} | changes.pop("params", {})
    given: dict[str, Any] = {
        "partitions": tuple(partitions),
        "data_until": partitions[-1].date + timedelta(days=1),
        "seed": 3,
        "checkpoint_every_steps": 5,
        "code_version": "test",
        "params": FlightsParams(**params),
    }
    return FlightsSpec(**given | changes)
