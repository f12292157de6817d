"""Rows of a CSV file, plain or gzipped, whose cells are read by type; a bad one is an error that names its place."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path


class BadTable(ValueError):
    """A file that can't be used; the message says where and what is allowed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file."""

    path: Path
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """The cell, empty where the file has no such column."""
        return self.cells.get(column, "").strip()

    def number(self, column: str, *, least: float = 0.0) -> float:
        """The cell as a number of at least `least`."""
        said = self.text(column)
        try:
            value = float(said)
        except ValueError:
            value = float("nan")
        if not isfinite(value) or value < least:
            raise self.error(column, f"a number of at least {least:g}")
        return value

    def whole(self, column: str, *, least: int = 0) -> int:
        """The cell as a whole number of at least `least`."""
        said = self.text(column)
        try:
            value = float(said)
        except ValueError:
            value = float("nan")
        if not isfinite(value) or value != int(value) or value < least:
            raise self.error(column, f"a whole number of at least {least}")
        return int(value)

    def error(self, column: str, allowed: str) -> BadTable:
        """What to raise for a cell that holds something else."""
        return BadTable(
            f"{self.path}, line {self.line}: column '{column}' is '{self.text(column)}'; {allowed} is allowed there"
        )


def read_rows(path: Path, required: Sequence[str], example: str) -> Iterator[Row]:
    """Each row in turn.

    Args:
        path: the file; gzipped if its name ends in `.gz`.
        required: columns that have to be there.
        example: a header that would do, for the message.

    Raises:
        BadTable: there is no such file, it is no CSV, or a required column is missing.
    """
    try:
        with _opened(path) as file:
            reader = csv.DictReader(file)
            header = [name.strip() for name in reader.fieldnames or ()]
            missing = [column for column in required if column not in header]
            if missing:
                found = ", ".join(header) or "nothing"
                raise BadTable(
                    f"{path}, line 1: column '{missing[0]}' is missing; the header has: {found}. At least "
                    f"{', '.join(required)} are needed, e.g. '{example}'"
                )
            reader.fieldnames = header
            for cells in reader:
                if None in cells or None in cells.values():
                    count = sum(value is not None for value in cells.values())
                    found = f"more than {len(header)}" if None in cells else str(count)
                    raise BadTable(
                        f"{path}, line {reader.line_num}: has {found} cells; the header names {len(header)} columns"
                    )
                yield Row(path, reader.line_num, cells)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadTable(f"{path}: can't be read as CSV{' in gzip' if path.suffix == '.gz' else ''}: {error}") from error


def _opened(path: Path) -> io.TextIOWrapper:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(path.open("rb"), encoding="utf-8-sig", newline="")
