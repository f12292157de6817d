"""`phalanx simulate`: how a trace of jobs would have fared on a cluster, by the scheduler's own decisions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gang_scheduler.policy import Blocking
from gang_simulator.comparison import HEADLINES, rows_of
from gang_simulator.faults import read_faults
from gang_simulator.jobs import Job, read_jobs
from gang_simulator.progress import ProgressLine
from gang_simulator.scenario import Scenario, read_changes
from gang_simulator.settings import ZERO, Durations, PolicyName
from gang_simulator.simulation import Simulation, Through, simulate
from phalanx_cli.output import Json, fail, print_facts, print_json, print_table, say, say_aside


def simulate_trace(
    jobs: Annotated[Path, typer.Argument(help="CSV or .csv.gz: job_id, submit_s, gpus, duration_s[, user, vc, ...]")],
    nodes: Annotated[int | None, typer.Option(help="So many equal nodes.")] = None,
    gpus_per_node: Annotated[int | None, typer.Option(help="GPUs of each of them.")] = None,
    pools: Annotated[Path | None, typer.Option(help="A pools.toml instead: its nodes, queues and policy.")] = None,
    policy: Annotated[PolicyName, typer.Option(help="srsf and las may stop what runs.")] = PolicyName.DEFAULT,
    blocking: Annotated[
        Blocking | None, typer.Option(help="What passes the first that does not fit; default: the policy's.")
    ] = None,
    durations: Annotated[
        Durations | None, typer.Option(help="Whether the scheduler knows them; default: known, but not for las.")
    ] = None,
    restart_cost: Annotated[
        str, typer.Option(help="Seconds without progress at a restart, for 1, at most 8, more GPUs; or none.")
    ] = "7,30,60",
    checkpoint_every: Annotated[
        str, typer.Option(help="Seconds between checkpoints, from which a fault sets back; or none.")
    ] = "1800",
    aged_after: Annotated[
        str, typer.Option(help="Seconds of waiting after which a gang goes first; or never; default: the policy's.")
    ] = "",
    faults: Annotated[
        Path | None, typer.Option(help="CSV or .csv.gz of node faults: node (name or number), start_s, end_s.")
    ] = None,
    what_if: Annotated[
        str, typer.Option(help="Replay again with changes, e.g. 'nodes=+8 policy=srsf', or a TOML file of such.")
    ] = "",
    report: Annotated[Path | None, typer.Option(help="Write an HTML page with plots, in one file.")] = None,
    start: Annotated[
        datetime | None, typer.Option(help="The instant of second 0 (UTC), for queues with hours and tariffs.")
    ] = None,
    through: Annotated[
        Through, typer.Option(help="plan: a snapshot for each decision, slow; board: the same decisions, fast.")
    ] = Through.BOARD,
    seed: Annotated[int, typer.Option(help="Order among jobs of one second: 0 as in the file, else shuffled.")] = 0,
    as_json: Json = False,
) -> None:
    """Replay a trace of jobs on a described cluster; report waits, completion times and use."""
    try:
        scenario = Scenario(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            pools=pools,
            policy=policy,
            blocking=blocking,
            durations=durations,
            starts_at=start.replace(tzinfo=UTC) if start else ZERO,
        ).changed({"restart_cost": restart_cost, "checkpoint_every_s": checkpoint_every, "seed": seed})
        if aged_after:
            scenario = scenario.changed({"aged_after_s": aged_after})
        scenarios = [scenario]
        if what_if:
            scenarios.append(_changed(scenario, what_if))
        found = [_simulate(jobs, each, faults, through, as_json) for each in scenarios]
        if report is not None:
            from gang_simulator.report import write_report  # plots: a second to import

            write_report(report, found, jobs.name)
    except (ValueError, OSError, ImportError) as error:
        fail(error, as_json)
    if as_json:
        documents = [simulation.numbers for simulation in found]
        print_json(documents[0] | ({"what_if": documents[1]} if what_if else {}))
    else:
        _tell(found, what_if)
        if report is not None:
            say(f"\nreport: {report}")


def _changed(scenario: Scenario, what_if: str) -> Scenario:
    changes = read_changes(what_if)
    if "pools" in changes:  # the other way to describe a cluster
        scenario = replace(scenario, nodes=None, gpus_per_node=None)
    return scenario.changed(changes)


def _simulate(jobs: Path, scenario: Scenario, faults: Path | None, through: Through, as_json: bool) -> Simulation:
    cluster = scenario.cluster()
    settings = scenario.settings(cluster)
    read: Sequence[Job] = read_jobs(jobs, cluster.priorities)
    met, passed_over = read_faults(faults, [node.node for node in cluster.nodes]) if faults else ((), 0)
    line = None if as_json and not sys.stderr.isatty() else ProgressLine(sys.stderr, f"replaying {jobs.name}")
    try:
        simulation = simulate(read, cluster, settings, faults=met, through=through, on_progress=line)
    finally:
        if line is not None:
            line.close()
    if passed_over:
        say_aside(f"{faults}: {passed_over} faults are of nodes that {cluster.label} do not have; passed over")
    return simulation


def _tell(found: Sequence[Simulation], what_if: str) -> None:
    first = found[0].numbers
    if len(found) == 1:
        print_facts(dict(rows_of(first)))
    else:
        second = found[1].numbers
        rows = [
            (label, value, other) for (label, value), (_, other) in zip(rows_of(first), rows_of(second), strict=True)
        ]
        print_table(("", "as it is", what_if), rows, "")
    for simulation in found:
        _tell_parts(simulation, "" if len(found) == 1 else f" ({'as it is' if simulation is found[0] else what_if})")


def _tell_parts(simulation: Simulation, which: str) -> None:
    numbers = simulation.numbers
    for title, parts in (("GPUs", numbers["by_width"]), ("queue", numbers["by_queue"])):
        if len(parts) > 1:
            say(f"\nby {'width' if title == 'GPUs' else 'queue'}{which}, seconds")
            columns = (title, "jobs", *(label for label, _ in HEADLINES))
            print_table(columns, [_part(name, part) for name, part in parts.items()], "")
    if left_out := numbers["left_out"]:
        say(f"\nleft out{which}: {len(left_out)} jobs that can never fit")
        for job in left_out[:5]:
            say(f"  {job['job_id']}: {job['reason']}")
    if waiting := numbers["never_started"]:
        say(f"\nnever done{which}: {len(waiting)} jobs waited until nothing more could change")
        for job_id, why in list(waiting.items())[:5]:
            say(f"  {job_id}: {why}")


def _part(name: str, part: dict[str, Any]) -> tuple[Any, ...]:
    return name, part["jobs"], *(f"{part[key]:,.0f}" for _, key in HEADLINES)
