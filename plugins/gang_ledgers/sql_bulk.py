"""Many rows in few statements: one for each set of columns, sent with all its rows at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table, bindparam, delete, update

# A statement takes 65,535 parameters on PostgreSQL and 32,766 on SQLite.
MOST_KEYS = 1000


def update_each(
    connection: Connection,
    table: Table,
    key_columns: Sequence[Column[Any]],
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]],
    same: Mapping[str, Any] | None = None,
) -> None:
    """Write each row's own values to it, found by its key, and the expressions `same` to all of them."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for key, values in rows.items():
        parameters = {f"new_{name}": value for name, value in values.items()}
        alike[tuple(sorted(values))].append(parameters | _keyed(key_columns, key))
    for names, parameters_of_each in alike.items():
        statement = update(table).where(*_is_it(key_columns))
        statement = statement.values({**(same or {}), **{name: bindparam(f"new_{name}") for name in names}})
        connection.execute(statement, parameters_of_each)


def delete_each(
    connection: Connection, table: Table, key_columns: Sequence[Column[Any]], keys: Iterable[tuple[Any, ...]]
) -> None:
    """Delete the rows with those keys."""
    parameters = [_keyed(key_columns, key) for key in keys]
    if parameters:
        connection.execute(delete(table).where(*_is_it(key_columns)), parameters)


def in_parts(keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The keys in parts that one statement can name."""
    for start in range(0, len(keys), MOST_KEYS):
        yield keys[start : start + MOST_KEYS]


def _keyed(key_columns: Sequence[Column[Any]], key: tuple[Any, ...]) -> dict[str, Any]:
    return {f"key_{column.name}": part for column, part in zip(key_columns, key, strict=True)}


def _is_it(key_columns: Sequence[Column[Any]]) -> list[Any]:
    return [column == bindparam(f"key_{column.name}") for column in key_columns]
