"""`phalanx plan`: who waits and when they start, and what would become of a gang that is not asked for yet."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from embedded_stack.launcher import home_of
from gang_controller.wiring import open_controller
from gang_scheduler.forecast import DryRun, dry_run, forecast
from gang_scheduler.gang import GangRequest, Topology, WorkerGroup
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, Snapshot
from phalanx_cli.output import Home, Json, print_facts, print_json, print_table, say
from phalanx_cli.reading import reading
from pool_settings.sources import load


def plan(
    pool: Annotated[str, typer.Option("--pool", help="Ask for a gang in this gang pool; without it, who waits.")] = "",
    workers: Annotated[int, typer.Option(help="Workers of the gang.", min=1)] = 1,
    min_workers: Annotated[int, typer.Option(help="Fewest workers it starts with; 0: all.", min=0)] = 0,
    cpus: Annotated[float, typer.Option(help="CPUs of a worker.", min=0)] = 1.0,
    memory_gib: Annotated[float, typer.Option(help="Memory of a worker, GiB.", min=0)] = 0.0,
    gpus: Annotated[int, typer.Option(help="Whole GPUs of a worker.", min=0)] = 0,
    gpu_share: Annotated[float, typer.Option(help="Part of one GPU of a worker, instead.", min=0, max=1)] = 0.0,
    topology: Annotated[str, typer.Option(help="Level under one domain of which all workers must be.")] = "",
    queue: Annotated[str, typer.Option(help="Gang queue.")] = "default",
    priority: Annotated[int, typer.Option(help="Gang priority.")] = 0,
    hours: Annotated[float, typer.Option(help="Expected duration in hours; 0: unknown.", min=0)] = 0.0,
    dag_id: Annotated[str, typer.Option("--dag-id", help="The DAG that would ask; access is checked by it.")] = "plan",
    pools_file: Annotated[
        Path | None, typer.Option("--pools", help="An empty cluster by this pools.toml, instead of the live one.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say who waits, why, and when they start; or, with --pool, whether a gang would fit: never, now, or when.

    Nothing is asked for or written. Exits with 1 if the gang would be refused for good.
    """
    request = None
    if pool:
        each = Resources(cpus, memory_gib, gpus, gpu_share=gpu_share)
        request = GangRequest(
            gang_id=f"{dag_id}/dry-run/plan",
            dag_id=dag_id,
            gang_pool=pool,
            worker_groups=(WorkerGroup("workers", workers, each, min_workers or None),),
            command=(),
            run_spec_json="{}",
            run_spec_digest="",
            gang_queue=queue,
            gang_priority=priority,
            topology=Topology(topology, is_required=True) if topology else None,
            expected_duration=timedelta(hours=hours) if hours else None,
        )
    with reading(as_json):
        if pools_file is not None:
            settings = load(home_of(home).home, pools_file)
            snapshot = settings.snapshot()
            refused = settings.refusal(request) if request else None
            told = DryRun(refused, None, refused, None) if refused else dry_run(request, snapshot) if request else None
        else:
            with closing(open_controller(home_of(home).home)) as controller:
                snapshot = controller.outlook()
                told = controller.dry_run(request) if request else None
    if told is None:
        _show_line(snapshot, as_json)
    else:
        _show_dry_run(told, as_json)


def _show_dry_run(told: DryRun, as_json: bool) -> None:
    start = None if told.forecast is None else told.forecast.start
    if as_json:
        answer = "never" if told.never else "now" if told.now else "later"
        print_json({"answer": answer, "why": told.sentence, "placement": told.now, "forecast": told.forecast})
    elif told.now is not None:
        where = ", ".join(f"{placed.workers} on {placed.node}" for placed in told.now.workers)
        print_facts({"would start": "now", "gang pool": told.now.pool, "workers": where})
    elif told.never:
        print_facts({"would start": "never", "why": told.never})
    else:
        assert told.forecast is not None
        print_facts(
            {
                "would start": f"{start:%Y-%m-%d %H:%M} UTC" if start else "not within what can be foreseen",
                "position": told.forecast.position,
                "why": told.sentence,
                "guessed": _guesses(told.forecast.guesses),
            }
        )
    if told.never:
        raise typer.Exit(1)


def _show_line(snapshot: Snapshot, as_json: bool) -> None:
    waiting = [view for view in snapshot.gangs if not view.holds_capacity]
    starts = forecast(snapshot, [view.request.gang_id for view in waiting])
    known = [(view, starts.get(view.request.gang_id)) for view in waiting]
    known.sort(key=lambda item: (item[1].position if item[1] else len(waiting) + 1, item[0].key))
    if as_json:
        print_json([{**_document(view), "forecast": found} for view, found in known])
        return
    rows = [
        (
            found.position if found else None,
            view.request.gang_id,
            view.request.gang_queue,
            view.request.total,
            _in_words(found.start, snapshot.now) if found and found.start else None,
            view.wait_sentence or view.wait_reason or None,
        )
        for view, found in known
    ]
    columns = ("place", "gang", "gang queue", "asks", "starts", "why it waits")
    print_table(columns, rows, f"nobody waits; {len(snapshot.gangs)} gangs hold capacity")
    guesses = max((found.guesses for _, found in known if found), default=0)
    if guesses:
        say(f"({_guesses(guesses)})")


def _guesses(count: int) -> str | None:
    return f"the duration of {count} gangs is not known and was guessed" if count else None


def _in_words(start: datetime, now: datetime) -> str:
    minutes = round((start - now).total_seconds() / 60)
    return f"{start.astimezone(UTC):%m-%d %H:%M} (in {minutes // 60} h {minutes % 60:02d} min)"


def _document(view: GangView) -> dict[str, Any]:
    request = view.request
    return {
        "gang": request.gang_id,
        "submission": view.submission,
        "state": view.state,
        "gang_queue": request.gang_queue,
        "gang_pool": request.gang_pool,
        "gang_priority": request.gang_priority,
        "asks": request.total,
        "reason": view.wait_reason or None,
        "why": view.wait_sentence or None,
    }
