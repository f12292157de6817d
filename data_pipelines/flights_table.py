"""From what Spark collected to one Arrow table per day, exactly typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from data_pipelines.flights_columns import COLUMNS, NULLABLE
from data_pipelines.flights_transform import DAY, FATE, FATES, NULLED

ARROW_TYPES = {"date32[day]": pa.date32(), "string": pa.string(), "double": pa.float64(), "bool": pa.bool_()}

SCHEMA = pa.schema(
    [
        pa.field(name, ARROW_TYPES.get(kind) or pa.type_for_alias(kind), nullable=name in NULLABLE)
        for name, kind in COLUMNS.items()
    ]
)


def split_by_day(rows: pa.Table, days: Sequence[str]) -> Iterator[tuple[str, pa.Table, Counter[str], int]]:
    """For each day: the kept rows sorted by flight, the dropped ones counted by reason, the values made null."""
    for day in days:
        of_day = rows.filter(pc.equal(rows[DAY], day))
        fates = Counter(dict.fromkeys(FATES, 0))
        fates.update(fate for fate in of_day[FATE].to_pylist() if fate is not None)
        kept = of_day.filter(pc.is_null(of_day[FATE])).sort_by("flight_id")
        nulled = pc.sum(kept[NULLED]).as_py() or 0
        yield day, kept.select(list(COLUMNS)).cast(SCHEMA).combine_chunks(), fates, nulled
