"""`phalanx config`: what holds in this installation, and where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from embedded_stack.launcher import home_of
from gang_controller import wiring
from phalanx_cli.output import Home, Json, fail, print_json, print_table
from phalanx_cli.pools import tell_invalid
from pool_settings import SettingsInvalid, load
from pool_settings.origins import DEFAULT, Value
from pool_settings.problems import shown as shown_as_toml
from pool_settings.sources import pools_file

app = typer.Typer(help="Settings: what holds, and where each value comes from.", no_args_is_help=True)


@app.command("show")
def show(
    pools: Annotated[
        Path | None,
        typer.Option("--pools", help="Settings file; default: $PHALANX_POOLS, else pools.toml in the state folder."),
    ] = None,
    given: Annotated[bool, typer.Option("--given", help="Only what is not a default.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print each setting with its value and origin: a line of the file, a variable of the environment, or default."""
    folder = home_of(home).home
    try:
        values = [*_places(folder, home, pools), *load(folder, pools).origins.values()]
    except SettingsInvalid as error:
        tell_invalid(error, as_json)
    except wiring.NotWired as error:
        fail(error, as_json)
    shown = [value for value in values if not given or value.origin != DEFAULT]
    if as_json:
        print_json([asdict(value) for value in shown])
    else:
        rows = [(value.key, _written(value.value), value.origin) for value in shown]
        print_table(("setting", "value", "origin"), rows, "every value is a default")


def _places(folder: Path, home: Path | None, pools: Path | None) -> Iterator[Value]:
    """Where things lie; of the ledger only the file that holds its URL, since that holds a password."""
    yield Value("home", str(folder), "--home" if home else _origin("PHALANX_HOME"))
    file, origin = pools_file(folder, pools)
    yield Value("pools_file", str(file) if file.exists() else None, origin)
    for name, place in (("PHALANX_LEDGER_URL_FILE", wiring.ledger_url_file), ("PHALANX_RUNS_DIR", wiring.runs_dir)):
        key = name.removeprefix("PHALANX_").lower()
        yield Value(key, str(place(home and folder)), DEFAULT if home else _origin(name))
    settings = load(folder, pools)
    slots = wiring.local_node(settings).node.capacity.cpus
    if wiring.local_slots() is not None:
        yield Value("local_slots", slots, _origin("PHALANX_LOCAL_SLOTS"))
    elif settings.node(wiring.LOCAL_POOL, wiring.LOCAL_NODE) is not None:
        yield Value("local_slots", slots, settings.origins.line(("pool", wiring.LOCAL_POOL, "nodes")))
    else:
        yield Value("local_slots", slots, DEFAULT)  # the CPUs of this machine, at least 2


def _origin(variable: str) -> str:
    return f"${variable}" if os.environ.get(variable) else DEFAULT


def _written(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) and value else shown_as_toml(value)
