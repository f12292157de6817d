"""`phalanx gangs`: what was asked for, what became of it, and what a person does about it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from embedded_stack.launcher import home_of
from gang_controller.wiring import open_ledger
from gang_ledgers.ledger import GangHasEnded, GangRecord, HistoryRow, Ledger, UnknownGang
from gang_scheduler.gang_state import HOLDS_CAPACITY, GangState
from phalanx_cli.output import Home, Json, Who, Why, print_facts, print_json, print_table, say, who_asks
from phalanx_cli.reading import reading
from phalanx_cli.seen import seen_sentence
from training import heartbeat
from training.seeing.requests import MOST_STEPS, SeeingRequest, What

app = typer.Typer(
    help="Gangs: who holds or waits for slots, and why; hold, requeue or cancel one.", no_args_is_help=True
)


class NotRunning(LookupError):
    """There are no ranks that could answer."""


GangId = Annotated[str, typer.Argument(help="DAG_ID/RUN_ID/TASK_ID[/MAP_INDEX]", metavar="GANG_ID")]


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
    gang_id: GangId,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show a gang with all its submissions and what happened to it."""
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        submissions, history = ledger.submissions(gang_id), ledger.history(gang_id)
        if not submissions:
            raise UnknownGang(f"no gang '{gang_id}' was ever asked for; `phalanx gangs list` shows all")
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
                "seen": _seen(gang),
                "held": gang.held_why if gang.is_held else None,
                "run folder": gang.run_dir,
            }
        )
        say("")
    print_table(("at", "submission", "attempt", "event", "what"), [_row(row) for row in history], "")


@app.command("hold")
def hold(
    gang_id: GangId,
    why: Why,
    release: Annotated[bool, typer.Option("--release", help="Lift the hold instead.")] = False,
    who: Who = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Keep a gang from being admitted until the hold is lifted with --release; what runs goes on."""

    def act(ledger: Ledger) -> tuple[GangRecord, str]:
        if release:
            return ledger.lift_hold(gang_id, who_asks(who), why), "may be admitted"
        gang = ledger.hold(gang_id, who_asks(who), why)
        runs = gang.state in HOLDS_CAPACITY
        return gang, "is held once its present attempt has ended" if runs else "is held"

    _act(act, home, as_json)


@app.command("requeue")
def requeue(gang_id: GangId, why: Why, who: Who = "", home: Home = None, as_json: Json = False) -> None:
    """Stop a gang's attempt with a checkpoint and queue it again; no budget is charged."""

    def act(ledger: Ledger) -> tuple[GangRecord, str]:
        gang = ledger.requeue(gang_id, who_asks(who), why)
        runs = gang.state in HOLDS_CAPACITY
        return gang, "stops with a checkpoint and is queued again" if runs else "waits already; it need not back off"

    _act(act, home, as_json)


@app.command("cancel")
def cancel(gang_id: GangId, why: Why, who: Who = "", home: Home = None, as_json: Json = False) -> None:
    """Stop a gang for good, with a checkpoint from which it goes on if its task is cleared."""

    def act(ledger: Ledger) -> tuple[GangRecord, str]:
        gang = _known(ledger, gang_id)
        if not ledger.release(gang_id, None, who_asks(who), why):
            ended = f"its submission {gang.submission} {gang.state} at {gang.ended_at:%Y-%m-%d %H:%M:%S} UTC"
            raise GangHasEnded(
                f"gang '{gang_id}' can't be cancelled: {ended}. To run it again, clear its task in Airflow"
            )
        return _known(ledger, gang_id), "stops with a checkpoint and rests"

    _act(act, home, as_json)


@app.command("profile")
def profile(
    gang_id: GangId,
    steps: Annotated[int, typer.Option(help="So many steps.", min=1, max=MOST_STEPS)] = 10,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Have each rank of a running gang write a trace of its next steps (torch.profiler) into the launch folder."""
    _ask(gang_id, "profile", steps, f"trace-rank<r>-step<first>.json.gz, of {steps} steps", home, as_json)


@app.command("check")
def check(gang_id: GangId, home: Home = None, as_json: Json = False) -> None:
    """Have all ranks of a running gang make the same step, to find one that computes something else."""
    _ask(gang_id, "corruption-check", 1, "corruption-check.json", home, as_json)


def _ask(gang_id: str, what: What, steps: int, answer: str, home: Home, as_json: bool) -> None:
    """Leave the request in the run folder, where the ranks look."""
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        gang = _known(ledger, gang_id)
        if gang.state is not GangState.RUNNING:
            raise NotRunning(
                f"gang '{gang_id}': a {what} was asked for, and it is {gang.state}; only ranks of a running gang "
                "answer. Ask again once it runs"
            )
    SeeingRequest(uuid4().hex, steps).write(Path(gang.run_dir), what)
    folder = Path(gang.run_dir) / f"launch-{gang.attempt}"
    if as_json:
        print_json({"asked": what, "folder": str(folder), "answer": answer})
    else:
        say(f"asked for; the answer of attempt {gang.attempt} will be {folder / answer}")


def _act(act: Callable[[Ledger], tuple[GangRecord, str]], home: Home, as_json: bool) -> None:
    """Do it, and say what becomes of the gang; whoever ticks next carries it out."""
    with reading(as_json), closing(open_ledger(home_of(home).home)) as ledger:
        gang, what = act(ledger)
    if as_json:
        print_json(_document(gang))
    else:
        say(f"gang '{gang.gang_id}' submission {gang.submission} ({gang.state}) {what}")


def _known(ledger: Ledger, gang_id: str) -> GangRecord:
    gang = ledger.state(gang_id)
    if gang is None:
        raise UnknownGang(f"no gang '{gang_id}' was ever asked for; `phalanx gangs list` shows all")
    return gang


def _row(row: HistoryRow) -> tuple[Any, ...]:
    return row.at, row.submission, row.attempt, row.event, row.sentence


def _step(gang: GangRecord) -> str | None:
    if gang.progress is None or gang.progress.step is None:
        return None
    return f"{gang.progress.step}/{gang.progress.total_steps or '?'}"


def _why(gang: GangRecord) -> str | None:
    said = gang.verdict.sentence if gang.verdict else gang.wait_sentence
    held = f"held: {gang.held_why}" if gang.is_held and gang.held_why not in said else ""
    return "; ".join(filter(None, (said, held))) or None


def _seen(gang: GangRecord) -> str | None:
    beat = heartbeat.read(Path(gang.run_dir)) if gang.state is GangState.RUNNING else None
    return seen_sentence(beat) or None if beat and beat.launch == gang.attempt else None


def _document(gang: GangRecord) -> dict[str, Any]:
    return {
        "gang_id": gang.gang_id,
        "submission": gang.submission,
        "attempt": gang.attempt,
        "state": gang.state,
        "gang_pool": gang.request.gang_pool,
        "gang_queue": gang.request.gang_queue,
        "is_held": gang.is_held,
        "held_why": gang.held_why or None,
        "submitted_at": gang.submitted_at,
        "ended_at": gang.ended_at,
        "run_dir": gang.run_dir,
        "waits": gang.wait_sentence or None,
        "wait_reason": gang.wait_reason or None,
        "progress": gang.progress,
        "verdict": gang.verdict,
        "result": gang.result,
        "clocks_s": dict(gang.clocks),
        "infrastructure_ends": gang.infrastructure_ends,
        "user_ends": gang.user_ends,
    }
