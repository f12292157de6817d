"""`phalanx models`: what is registered, which model is the champion, and the way back to an earlier one."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Annotated, Any

import typer

from embedded_stack.launcher import home_of
from gang_controller.wiring import open_registry
from model_registry.registry import ChampionMove, Model
from phalanx_cli.output import Home, Json, Who, print_facts, print_json, print_table, say
from phalanx_cli.reading import reading

app = typer.Typer(help="Models: list, show, and roll back the champion.", no_args_is_help=True)


@app.command("list")
def list_models(
    name: Annotated[str, typer.Argument(help="Only models that compete under this name.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1)] = 50,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List models, newest first; the champion is marked."""
    with reading(as_json), closing(open_registry(home_of(home).home)) as registry:
        models = registry.models(name or None, limit=limit)
        champions = {n: c.model.model_id for n in {m.name for m in models} if (c := registry.champion(n))}
    if as_json:
        print_json([{**_document(m), "is_champion": champions.get(m.name) == m.model_id} for m in models])
        return
    rows = [
        (
            m.model_id,
            m.name,
            "champion" if champions.get(m.name) == m.model_id else "",
            f"{m.facts.data_from:%Y-%m-%d} - {m.facts.data_until - timedelta(days=1):%Y-%m-%d}",
            f"{m.facts.seen_until:%Y-%m-%d}",
            _flat(m.facts.metrics).get("challenger.auc"),
            f"{m.facts.dag_id}/{m.facts.run_id}",
        )
        for m in models
    ]
    columns = ("model", "name", "", "trained on", "seen until", "AUC", "run")
    print_table(columns, rows, "no model is registered yet")


@app.command("show")
def show(
    model_id: Annotated[int, typer.Argument(help="The model's number.")], home: Home = None, as_json: Json = False
) -> None:
    """Show a model with its data, code and metrics, and every move of its name's champion pointer."""
    with reading(as_json), closing(open_registry(home_of(home).home)) as registry:
        model = registry.model(model_id)
        champion, moves = registry.champion(model.name), registry.history(model.name)
    is_champion = champion is not None and champion.model.model_id == model_id
    if as_json:
        print_json({**_document(model), "is_champion": is_champion, "champion_moves": moves})
        return
    facts = {key: value for key, value in _document(model).items() if key != "metrics"}
    print_facts({**facts, "champion": "yes" if is_champion else "no"})
    say("")
    print_facts(_flat(model.facts.metrics))
    say("")
    print_table(("move", "at", "from", "to", "run", "who", "why"), [_move(move) for move in moves], "never a champion")


@app.command("rollback")
def rollback(
    name: Annotated[str, typer.Argument(help="The name whose champion pointer is moved back.")],
    why: Annotated[str, typer.Option("--why", help="The reason, for the record.")],
    to: Annotated[int | None, typer.Option("--to", help="A former champion; default: the one before.")] = None,
    who: Who = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Move the champion pointer back; refused if it has moved meanwhile."""
    with reading(as_json), closing(open_registry(home_of(home).home)) as registry:
        champion = registry.roll_back(name, who=who or getpass.getuser(), why=why, to_model=to)
    if as_json:
        print_json({"name": name, "champion": champion.model.model_id, "version": champion.version})
        return
    say(f"the champion of {name} is model {champion.model.model_id} now (version {champion.version} of the pointer)")


def _move(move: ChampionMove) -> tuple[Any, ...]:
    return move.number, move.at, move.from_model, move.to_model, move.run, move.who, move.why


def _document(model: Model) -> dict[str, Any]:
    facts = model.facts
    return {
        "model_id": model.model_id,
        "name": facts.name,
        "dag_id": facts.dag_id,
        "run_id": facts.run_id,
        "gang_id": facts.gang_id,
        "data_from": facts.data_from,
        "data_until": facts.data_until,
        "seen_until": facts.seen_until,
        "uri": facts.uri,
        "model_digest": facts.model_digest,
        "run_spec_digest": facts.digest,
        "code_version": facts.code_version,
        "created_at": model.created_at,
        "metrics": dict(facts.metrics),
    }


def _flat(metrics: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested metrics under dotted names; lists are left to --json."""
    flat: dict[str, Any] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list):
            flat[prefix + name] = value
    return flat
