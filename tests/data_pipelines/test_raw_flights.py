from __future__ import annotations

from pathlib import Path

import pytest

from data_pipelines.job_errors import BadData
from data_pipelines.raw_flights import FLIGHT_COLUMNS, FLIGHTS, check_columns

HEADER = ",".join(FLIGHT_COLUMNS)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (HEADER.replace(",carrier", "").encode(), "column 'carrier' is missing. Expected"),
        (HEADER.replace("carrier", "airline").encode(), "'carrier' is missing; unknown column 'airline' is there"),
        (f"{HEADER},gate".encode(), "column 'gate' is unknown"),
        (HEADER.replace("year,month", "month,year").encode(), "column 'year' isn't at its place"),
        (b"", "column 'year' is missing"),
        (HEADER.encode() + b"\n\xff\xfe", "no UTF-8 text at byte"),
    ],
    ids=["missing", "renamed", "added", "reordered", "empty", "binary"],
)
def test_file_and_column_are_named_when_a_raw_file_has_changed(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "flights.csv"
    path.write_bytes(content)
    with pytest.raises(BadData, match=f"raw file {path}.*{says}") as error:
        check_columns(path, FLIGHTS)
    assert "eliver the file" in str(error.value)


def test_a_file_passes_when_its_lines_end_as_on_windows(tmp_path: Path) -> None:
    (tmp_path / "flights.csv").write_bytes(f"{HEADER}\r\n".encode())
    check_columns(tmp_path / "flights.csv", FLIGHTS)
