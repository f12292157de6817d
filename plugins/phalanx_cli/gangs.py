"""`phalanx gangs`: what was asked for, and what became of it; read-only."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from embedded_stack.launcher import home_of
from gang_controller.wiring import open_ledger
from gang_ledgers.ledger import GangRecord, HistoryRow
from phalanx_cli.output import Home, Json, print_facts, print_json, print_table, say
from phalanx_cli.reading import reading

app = typer.Typer(help="Gangs: who holds or waits for slots, and why.", no_args_is_help=True)


@app.command("list")
def list_gangs(
    live: Annotated[bool, typer.Option("--live", help="Only those that wait or run.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1)] = 50,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List submissions of gangs, newest first."""
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        gangs = ledger.list_gangs(live_only=live, limit=limit)
    if as_json:
        print_json([_document(gang) for gang in gangs])
        return
    rows = [(g.gang_id, g.submission, g.attempt, g.state, _step(g), g.submitted_at, _why(g)) for g in gangs]
    columns = ("gang", "submission", "attempt", "state", "step", "asked at", "why")
    print_table(columns, rows, "no gang was ever asked for")


@app.command("show")
def show(
    gang_id: Annotated[str, typer.Argument(help="DAG_ID/RUN_ID/TASK_ID[/MAP_INDEX]")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show a gang with all its submissions and what happened to it."""
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        submissions, history = ledger.submissions(gang_id), ledger.history(gang_id)
        if not submissions:
            raise LookupError(f"no gang '{gang_id}' was ever asked for; `phalanx gangs list` shows all")
    if as_json:
        print_json({"submissions": [_document(gang) for gang in submissions], "history": history})
        return
    for gang in submissions:
        print_facts(
            {
                "gang": gang.gang_id,
                "submission": gang.submission,
                "attempt": gang.attempt,
                "state": gang.state,
                "step": _step(gang),
                "why": _why(gang),
                "run folder": gang.run_dir,
            }
        )
        say("")
    print_table(("at", "submission", "attempt", "event", "what"), [_row(row) for row in history], "")


def _row(row: HistoryRow) -> tuple[Any, ...]:
    return row.at, row.submission, row.attempt, row.event, row.sentence


def _step(gang: GangRecord) -> str | None:
    if gang.progress is None or gang.progress.step is None:
        return None
    return f"{gang.progress.step}/{gang.progress.total_steps or '?'}"


def _why(gang: GangRecord) -> str | None:
    return (gang.verdict.sentence if gang.verdict else gang.wait_sentence) or None


def _document(gang: GangRecord) -> dict[str, Any]:
    return {
        "gang_id": gang.gang_id,
        "submission": gang.submission,
        "attempt": gang.attempt,
        "state": gang.state,
        "gang_pool": gang.request.gang_pool,
        "submitted_at": gang.submitted_at,
        "ended_at": gang.ended_at,
        "run_dir": gang.run_dir,
        "waits": gang.wait_sentence or None,
        "progress": gang.progress,
        "verdict": gang.verdict,
        "result": gang.result,
        "clocks_s": dict(gang.clocks),
        "infrastructure_ends": gang.infrastructure_ends,
        "user_ends": gang.user_ends,
    }
