"""`phalanx status`: the parts of the stack, and the gangs that live."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import typer

from embedded_stack.launcher import home_of
from embedded_stack.processes import ProcessIdentity
from embedded_stack.stack_record import StackRecord, StackState
from embedded_stack.state_folder import StateFolder
from phalanx_cli.output import Home, Json, print_json, print_table, say


def status(home: Home = None, as_json: Json = False) -> None:
    """Show each part with its health, restarts and age, and the gangs that live. Exits 1 unless the stack is up."""
    folder = home_of(home)
    record = StackRecord.read(folder.stack)
    parts = [_part(part) for part in record.parts]
    gangs, trouble = _gangs(folder) if record.state is StackState.UP else ([], "")
    if as_json:
        print_json(
            {
                "home": str(folder.home),
                "state": record.state,
                "address": record.address,
                "launcher_pid": record.launcher.pid if record.launcher else None,
                "since": record.since,
                "parts": parts,
                "gangs": gangs,
                "gangs_unknown_because": trouble or None,
            }
        )
    else:
        _print(folder, record, parts, gangs, trouble)
    if record.state is not StackState.UP:
        raise typer.Exit(1)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    process = ProcessIdentity.read(part["process"])
    is_alive = process is not None and process.is_alive
    return {
        "name": part["name"],
        "pid": process.pid if process else None,
        "health": part["health"] if is_alive or part["health"] in ("restarting", "stopped") else "dead",
        "restarts": part["restarts"],
        "since": part["since"],
        "last_exit": part["last_exit"],
        "log": part["log"],
    }


def _gangs(folder: StateFolder) -> tuple[list[dict[str, Any]], str]:
    """The live gangs; why not, if the ledger can't be read: status must still show the parts then."""
    try:
        from gang_controller.wiring import open_ledger

        with closing(open_ledger(folder.home)) as ledger:
            live = ledger.list_gangs(live_only=True)
    except Exception as error:  # noqa: BLE001
        return [], f"{type(error).__name__}: {error}"
    return [
        {
            "gang_id": gang.gang_id,
            "submission": gang.submission,
            "attempt": gang.attempt,
            "state": gang.state,
            "step": gang.progress.step if gang.progress else None,
            "total_steps": gang.progress.total_steps if gang.progress else None,
            "waits": gang.wait_sentence,
        }
        for gang in live
    ], ""


def _print(
    folder: StateFolder, record: StackRecord, parts: list[dict[str, Any]], gangs: list[dict[str, Any]], trouble: str
) -> None:
    say(f"stack in {folder.home}: {record.state}" + (f", UI {record.address}" if record.state is StackState.UP else ""))
    if record.state is StackState.LOST:
        say("its launcher was killed; `phalanx up` or `phalanx down` ends what is left")
    if record.state is StackState.DOWN:
        return
    rows = [(p["name"], p["pid"], p["health"], p["restarts"], _age(p["since"]), p["last_exit"] or None) for p in parts]
    print_table(("part", "pid", "health", "restarts", "since", "last exit"), rows, "no part has been started")
    if trouble:
        say(f"gangs are not known: {trouble}")
    elif gangs:
        print_table(
            ("gang", "submission", "attempt", "state", "step", "waits"),
            [(g["gang_id"], g["submission"], g["attempt"], g["state"], g["step"], g["waits"] or None) for g in gangs],
            "",
        )
    elif record.state is StackState.UP:
        say("no gang is live")


def _age(since: str) -> str:
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds())
    hours, rest = divmod(max(0, seconds), 3600)
    return f"{hours}h{rest // 60:02d}m ago" if hours else f"{rest // 60}m{rest % 60:02d}s ago"
