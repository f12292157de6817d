"""How commands speak: lines and tables to people, one JSON document to programs, errors to standard error."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Home = Annotated[
    Path | None, typer.Option("--home", help="State folder; default: $PHALANX_HOME, else .phalanx in the checkout.")
]
Who = Annotated[str, typer.Option("--who", help="Who asks, for the record; default: the user's name.")]
Why = Annotated[str, typer.Option("--why", help="Why, for the record and for those who wonder.")]


def who_asks(named: str) -> str:
    """The person for the record: as named, else the user of this process."""
    return named or getpass.getuser()


def say(line: str) -> None:
    """Tell a person one line, also where standard output goes into a pipe."""
    print(line, flush=True)


def say_aside(line: str) -> None:
    """Tell a person one line where standard output belongs to a program."""
    print(line, file=sys.stderr, flush=True)


def teller(as_json: bool) -> Callable[[str], None]:
    """Where progress lines go."""
    return say_aside if as_json else say


def print_json(document: Any) -> None:
    """Print the document; dataclasses, times, durations and paths are written as JSON has them."""
    print(json.dumps(document, indent=2, default=_plain), flush=True)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """Print rows under a heading, or the sentence `empty`."""
    if not rows:
        say(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # Into a pipe nothing is cut to a terminal's width.
    Console(width=None if sys.stdout.isatty() else 220, highlight=False, markup=False).print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one fact a line, names aligned; what is unknown is left out."""
    known = {name: _cell(value) for name, value in facts.items() if value not in (None, "")}
    width = max((len(name) for name in known), default=0)
    for name, value in known.items():
        say(f"{name:<{width}}  {value}")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)


def fail(error: Exception, as_json: bool, code: int = 1) -> NoReturn:
    """Report what went wrong, and exit with the code."""
    if as_json:
        print_json({"error": str(error), "kind": type(error).__name__})
    else:
        print(f"phalanx: {error}", file=sys.stderr, flush=True)
    raise typer.Exit(code) from error
