"""Many rows in few statements: one for each set of columns, sent with all its rows at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    Table,
    TableValuedAlias,
    bindparam,
    column,
    delete,
    func,
    insert,
    select,
    update,
)

from gang_ledgers.sql_engine import is_postgresql

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
    alike: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for key, values in rows.items():
        names = tuple(sorted(values))
        alike[names].append((*key, *(values[name] for name in names)))
    for names, written in alike.items():
        columns = [*key_columns, *(table.c[name] for name in names)]
        if is_postgresql(connection) and len(written) > 1:
            _update_by_arrays(connection, table, columns, len(key_columns), written, same or {})
        else:
            _update_one_by_one(connection, table, columns, len(key_columns), written, same or {})


def _update_by_arrays(
    connection: Connection,
    table: Table,
    columns: Sequence[Column[Any]],
    keys: int,
    rows: Sequence[tuple[Any, ...]],
    same: Mapping[str, Any],
) -> None:
    given = _given(*columns)
    is_it = [of == given.c[of.name] for of in columns[:keys]]
    own: dict[str, Any] = {of.name: given.c[of.name] for of in columns[keys:]}
    connection.execute(update(table).where(*is_it).values({**same, **own}), _arrays(columns, rows))


@cache
def _given(*columns: Column[Any]) -> TableValuedAlias:
    """Rows handed over as one array for each column.

    One statement, and of the same text for any number of rows, so that neither SQLAlchemy nor the driver parses it
    again: a tenth of what a statement for each row costs.
    """
    arrays = [bindparam(f"all_{of.name}", type_=ARRAY(of.type)) for of in columns]
    given = func.unnest(*arrays).table_valued(*(column(of.name, of.type) for of in columns), name="given")
    return given.render_derived()


def _arrays(columns: Sequence[Column[Any]], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    of_each = zip(*rows, strict=True)
    return {f"all_{of.name}": list(values) for of, values in zip(columns, of_each, strict=True)}


def _update_one_by_one(
    connection: Connection,
    table: Table,
    columns: Sequence[Column[Any]],
    keys: int,
    rows: Sequence[tuple[Any, ...]],
    same: Mapping[str, Any],
) -> None:
    is_it = [of == bindparam(f"given_{of.name}") for of in columns[:keys]]
    own: dict[str, Any] = {of.name: bindparam(f"given_{of.name}") for of in columns[keys:]}
    parameters = [{f"given_{of.name}": value for of, value in zip(columns, row, strict=True)} for row in rows]
    connection.execute(update(table).where(*is_it).values({**same, **own}), parameters)


def insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows in their order; all have values for the same columns."""
    if not is_postgresql(connection) or len(rows) < 2:
        if rows:
            connection.execute(insert(table), rows)
        return
    columns = [table.c[name] for name in rows[0]]
    given = _given(*columns)
    statement = insert(table).from_select([of.name for of in columns], select(given), include_defaults=False)
    connection.execute(statement, _arrays(columns, [tuple(row.values()) for row in rows]))


def is_one_of(connection: Connection, of: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """The condition that the column has one of the values; at most `MOST_KEYS` of them."""
    if is_postgresql(connection):
        return of == func.any(bindparam(None, list(values), type_=ARRAY(of.type), unique=True))
    return of.in_(values)


def delete_each(
    connection: Connection, table: Table, key_columns: Sequence[Column[Any]], keys: Iterable[tuple[Any, ...]]
) -> None:
    """Delete the rows with those keys."""
    parameters = [{f"given_{of.name}": part for of, part in zip(key_columns, key, strict=True)} for key in keys]
    if parameters:
        is_it = [of == bindparam(f"given_{of.name}") for of in key_columns]
        connection.execute(delete(table).where(*is_it), parameters)


def in_parts(keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The keys in parts that one statement can name."""
    for start in range(0, len(keys), MOST_KEYS):
        yield keys[start : start + MOST_KEYS]
