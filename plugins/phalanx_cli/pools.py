"""`phalanx pools`: whether a settings file is right, and what it amounts to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.tree import Tree

from embedded_stack.launcher import home_of
from phalanx_cli.output import Home, Json, print_json, print_table, say, say_aside
from pool_settings import SettingsInvalid, read_file
from pool_settings.picture import LevelPicture, Picture, PoolPicture, QuotaPicture, picture_of
from pool_settings.sources import pools_file

app = typer.Typer(help="Pools: check a settings file, and see what it amounts to.", no_args_is_help=True)


@app.command("check")
def check(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The settings file, see docs/pools.md; default: the one that holds here.", show_default=False
        ),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check a pools.toml and print its pools, queues and warnings. Exits 1 if it is invalid."""
    try:
        if file is None:
            file, _ = pools_file(home_of(home).home)
        picture = picture_of(read_file(file))
    except SettingsInvalid as error:
        tell_invalid(error, as_json)
    if as_json:
        print_json({"is_valid": True, "file": str(file), **asdict(picture)})
        return
    _print(picture)
    say(f"\n{file} is valid" + (f", with {len(picture.warnings)} warnings" if picture.warnings else ""))


def tell_invalid(error: SettingsInvalid, as_json: bool) -> NoReturn:
    """Report each problem, and exit with 1."""
    if as_json:
        print_json({"is_valid": False, "problems": [asdict(problem) for problem in error.problems]})
    else:
        for problem in error.problems:
            say_aside(f"phalanx: {problem}")
    raise typer.Exit(1) from error


def _print(picture: Picture) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    for pool in picture.pools:
        console.print(_tree(pool))
    if picture.quotas:
        say("")
        columns = ("queue", "cohort", "pool", "resource", "nominal", "borrow", "lend", "most")
        print_table(columns, [_quota(quota) for quota in picture.quotas], "")
        say("")
        rows = [
            (total.pool, total.resource, f"{total.owned:,.0f}", f"{total.held:,.0f}", _cohorts(total.by_cohort))
            for total in picture.sums
        ]
        print_table(("pool", "resource", "owned", "held", "by cohort"), rows, "")
    for warning in picture.warnings:
        say(f"warning: {warning}")


def _tree(pool: PoolPicture) -> Tree:
    kind = f" ({pool.kind})" if pool.kind else ""
    tree = Tree(f"pool {pool.name}{kind}, admitted to by {pool.authority}: {_nodes(pool.nodes)}")
    tree.add(f"{pool.cpus:,.0f} CPUs, {pool.memory_gib:,.0f} GiB memory, {pool.scratch_gib:,.0f} GiB scratch")
    if pool.gpus or pool.mig:
        models = ", ".join(f"{count:,} {model}" for model, count in pool.gpu_models)
        gpus = tree.add(f"{pool.gpus:,} whole GPUs" + (f": {models}" if models else ""))
        for profile, count in pool.mig:
            gpus.add(f"{count:,} MIG instances {profile}")
    branch = tree
    for level in pool.levels:
        branch = branch.add(_level(level))
    costs = [
        f"{pool.price_per_hour:,.2f} an hour" if pool.price_per_hour else "",
        f"{pool.watts / 1000:,.1f} kW" if pool.watts else "",
        f"capped at {pool.power_cap_w / 1000:,.1f} kW" if pool.power_cap_w else "",
    ]
    storage = [
        f"{pool.storage_gib:,.0f} GiB" if pool.storage_gib else "",
        f"{pool.storage_gbps:,.0f} Gbit/s" if pool.storage_gbps else "",
    ]
    for name, facts in (("all nodes", costs), ("shared storage", storage), ("regions", pool.regions)):
        if any(facts):
            tree.add(f"{name}: {', '.join(fact for fact in facts if fact)}")
    if pool.spot_nodes:
        tree.add(f"spot: {_nodes(pool.spot_nodes)}")
    if pool.states and pool.states != (("ready", pool.nodes),):
        tree.add(f"state: {', '.join(f'{count:,} {state}' for state, count in pool.states)}")
    return tree


def _nodes(count: int) -> str:
    return f"{count:,} node{'' if count == 1 else 's'}"


def _level(level: LevelPicture) -> str:
    size = (
        f"{level.most_nodes:,}"
        if level.fewest_nodes == level.most_nodes
        else f"{level.fewest_nodes:,} to {level.most_nodes:,}"
    )
    return f"{level.name}: {level.domains:,} domain{'' if level.domains == 1 else 's'} of {size} nodes"


def _quota(quota: QuotaPicture) -> Sequence[str]:
    borrow = "-" if not quota.cohort else "any" if quota.borrow is None else f"{quota.borrow:,.0f}"
    lend = "-" if not quota.cohort else "all" if quota.lend is None else f"{quota.lend:,.0f}"
    nominal = f"{quota.nominal:,.0f}"
    return quota.queue, quota.cohort or "-", quota.pool, quota.resource, nominal, borrow, lend, f"{quota.most:,.0f}"


def _cohorts(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{cohort} {owned:,.0f}" for cohort, owned in shares)
