"""What past runs of a task took, from which the duration of the next one is guessed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from sqlalchemy import Connection, select

from gang_ledgers.sql_bulk import in_parts, is_one_of
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_tables import task_runs

KEPT = 20  # of one task; older ones say little of the data and the code of today
ENOUGH = 3  # fewer than that say nothing of how much they vary


@dataclass(frozen=True, slots=True)
class Run:
    """A submission that succeeded, and how long its running clock ran."""

    gang_id: str
    dag_id: str
    digest: str
    running_s: float


@dataclass(frozen=True, slots=True)
class Learned:
    """The guess: the median of past runs, and the median of their relative distances from it (0.3: 30 %)."""

    duration: timedelta
    error: float


def task_key(gang_id: str, dag_id: str) -> str:
    """What runs of one task have in common: DAG and task, without the run and the map index."""
    parts = gang_id.split("/")
    return f"{dag_id}/{parts[2]}" if len(parts) > 2 else gang_id


def guess(seconds: list[float]) -> Learned | None:
    """What to expect after such runs; None if they are too few."""
    middle = median(seconds) if len(seconds) >= ENOUGH else 0.0
    if middle <= 0:
        return None
    return Learned(timedelta(seconds=middle), median(abs(each - middle) / middle for each in seconds))


def learn(change: Change, runs: Iterable[Run], before: Mapping[str, str] | None) -> None:
    """Add the runs to those of their tasks; of runs of equal work (one digest) the last counts.

    They are written with all else that the change gathers. `before` is what is known of every task, if that is at hand.
    """
    by_task: dict[str, list[Run]] = {}
    for run in runs:
        by_task.setdefault(task_key(run.gang_id, run.dag_id), []).append(run)
    known = _read(change.connection, list(by_task)) if before is None else before
    for task, new in by_task.items():
        kept: dict[str, float] = dict(json.loads(known.get(task, "[]")))
        for run in new:
            kept.pop(run.digest, None)
            kept[run.digest] = run.running_s
        change.learn(task, json.dumps(list(kept.items())[-KEPT:]), is_new=task not in known)


def _read(connection: Connection, tasks: Sequence[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for part in in_parts(tasks):
        query = select(task_runs.c.task_key, task_runs.c.runs).where(is_one_of(connection, task_runs.c.task_key, part))
        known |= {row.task_key: row.runs for row in connection.execute(query)}
    return known


def runs_since(connection: Connection, version: int) -> dict[str, str]:
    """The runs of each task of which more has become known since that version of the ledger, as they are written."""
    query = select(task_runs.c.task_key, task_runs.c.runs).where(task_runs.c.version > version)
    return {row.task_key: row.runs for row in connection.execute(query)}


def learned_of(runs: str) -> Learned | None:
    """What such runs let one guess."""
    return guess([seconds for _digest, seconds in json.loads(runs)])
