"""Many rows in few statements: one for each set of columns, sent with all its rows at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from pydantic_core import to_json
from sqlalchemy import (
    ARRAY,
    JSON,
    ClauseElement,
    Column,
    ColumnElement,
    Connection,
    Table,
    TableValuedAlias,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from gang_ledgers.sql_engine import is_postgresql

# A statement takes 65,535 parameters on PostgreSQL and 32,766 on SQLite.
MOST_KEYS = 1000
_PSYCOPG = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # SQLAlchemy's


@contextmanager
def without_answers(connection: Connection) -> Iterator[None]:
    """The statements of this module are sent one after the other, and their answers are waited for once, at the end.

    Only those: a result of any other statement could not be read in here.

    Raises:
        DBAPIError: one of them failed.
    """
    if not is_postgresql(connection):
        yield
        return
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    try:
        with driver.pipeline():
            yield
    except psycopg.Error as error:  # what SQLAlchemy, which saw no answer, could not wrap
        raise DBAPIError.instance(None, None, error, psycopg.Error) from error


def update_each(
    connection: Connection,
    table: Table,
    key_columns: Sequence[Column[Any]],
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]],
    raised: tuple[Column[int], ...] = (),
) -> None:
    """Write each row's own values to it, found by its key, and raise the columns `raised` by one."""
    alike: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for key, values in rows.items():
        names = tuple(sorted(values))
        alike[names].append((*key, *(values[name] for name in names)))
    for names, written in alike.items():
        columns = [*key_columns, *(table.c[name] for name in names)]
        if is_postgresql(connection):
            _update_together(connection, table, columns, len(key_columns), written, raised)
        else:
            _update_one_by_one(connection, table, columns, len(key_columns), written, raised)


def _update_together(
    connection: Connection,
    table: Table,
    columns: Sequence[Column[Any]],
    keys: int,
    rows: Sequence[tuple[Any, ...]],
    raised: tuple[Column[int], ...],
) -> None:
    sent = _update_text(table, tuple(columns), keys, raised)
    connection.exec_driver_sql(sent, _as_json(columns, rows))


# Statements for rows of one shape are always the same: building and looking one up would cost more than running it.


@cache
def _update_text(table: Table, columns: tuple[Column[Any], ...], keys: int, raised: tuple[Column[int], ...]) -> str:
    given = _given(columns)
    is_it = [of == given.c[of.name] for of in columns[:keys]]
    own: dict[str, Any] = {of.name: given.c[of.name] for of in columns[keys:]}
    return _text(update(table).where(*is_it).values({**_plus_one(raised), **own}))


@cache
def _insert_text(table: Table, columns: tuple[Column[Any], ...]) -> str:
    names = [of.name for of in columns]
    return _text(insert(table).from_select(names, select(_given(columns)), include_defaults=False))


@cache
def _delete_text(table: Table, columns: tuple[Column[Any], ...]) -> str:
    given = _given(columns)
    return _text(delete(table).where(*(of == given.c[of.name] for of in columns)))


def _text(statement: ClauseElement) -> str:
    return str(statement.compile(dialect=_PSYCOPG))


def _plus_one(columns: Iterable[Column[int]]) -> dict[str, Any]:
    return {of.name: of + literal_column("1") for of in columns}


def _given(columns: Sequence[Column[Any]]) -> TableValuedAlias:
    """Rows handed over as one text.

    So the statement is the same for any number of rows; and JSON is written in C, where the driver writes arrays
    element by element.
    """
    rows = func.json_to_recordset(cast(bindparam("given_rows", type_=Text()), JSON()))
    given = rows.table_valued(*(column(of.name, of.type) for of in columns), name="given")
    return given.render_derived(with_types=True)


def _as_json(columns: Sequence[Column[Any]], rows: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    names = [str(of.name) for of in columns]  # SQLAlchemy's own kind of text is slow to write
    given = [dict(zip(names, row, strict=True)) for row in rows]
    return {"given_rows": to_json(given, inf_nan_mode="constants").decode()}  # which PostgreSQL refuses in a number


def _update_one_by_one(
    connection: Connection,
    table: Table,
    columns: Sequence[Column[Any]],
    keys: int,
    rows: Sequence[tuple[Any, ...]],
    raised: tuple[Column[int], ...],
) -> None:
    is_it = [of == bindparam(f"given_{of.name}") for of in columns[:keys]]
    own: dict[str, Any] = {of.name: bindparam(f"given_{of.name}") for of in columns[keys:]}
    parameters = [{f"given_{of.name}": value for of, value in zip(columns, row, strict=True)} for row in rows]
    connection.execute(update(table).where(*is_it).values({**_plus_one(raised), **own}), parameters)


def insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows in their order; all have values for the same columns."""
    if not rows:
        return
    if not is_postgresql(connection):
        connection.execute(insert(table), rows)
        return
    columns = tuple(table.c[name] for name in rows[0])
    sent = _insert_text(table, columns)
    connection.exec_driver_sql(sent, _as_json(columns, [tuple(row.values()) for row in rows]))


def is_one_of(connection: Connection, of: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """The condition that the column has one of the values; at most `MOST_KEYS` of them."""
    if is_postgresql(connection):
        return of == func.any(bindparam(None, list(values), type_=ARRAY(of.type), unique=True))
    return of.in_(values)


def delete_each(
    connection: Connection, table: Table, key_columns: Sequence[Column[Any]], keys: Iterable[tuple[Any, ...]]
) -> None:
    """Delete the rows with those keys."""
    found = list(keys)
    if found and is_postgresql(connection):
        sent = _delete_text(table, tuple(key_columns))
        connection.exec_driver_sql(sent, _as_json(key_columns, found))
        return
    parameters = [{f"given_{of.name}": part for of, part in zip(key_columns, key, strict=True)} for key in found]
    if parameters:
        is_it = [of == bindparam(f"given_{of.name}") for of in key_columns]
        connection.execute(delete(table).where(*is_it), parameters)


def in_parts(keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The keys in parts that one statement can name."""
    for start in range(0, len(keys), MOST_KEYS):
        yield keys[start : start + MOST_KEYS]
