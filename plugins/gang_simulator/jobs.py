"""Jobs of a trace: what was asked for when, and how long it ran."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from gang_simulator.csv_rows import BadTable, Row, read_rows

REQUIRED = ("job_id", "submit_s", "gpus", "duration_s")
EXAMPLE = "job_id,submit_s,gpus,duration_s,user,vc"


@dataclass(frozen=True, slots=True)
class Job:
    """One row; times in seconds from any zero that all rows share.

    `duration_s` is what it runs on its GPUs without interruption, at compute 1.0. `vc` is the queue it was sent to in
    its time (virtual cluster), `gpu_type` the model it asked for; both and `user` may be empty.
    """

    job_id: str
    submit_s: float
    gpus: int
    duration_s: float
    user: str = ""
    vc: str = ""
    gpu_type: str = ""
    priority: int = 0

    @property
    def work_gpu_s(self) -> float:
        """GPU-seconds of useful work."""
        return self.gpus * self.duration_s


def read_jobs(path: Path, priorities: Mapping[str, int] | None = None) -> tuple[Job, ...]:
    """The jobs of a CSV file, in the order of the file.

    Args:
        path: the file; columns that it lacks, beyond the required ones, are empty.
        priorities: names that may stand in the column `priority` beside whole numbers.

    Raises:
        BadTable: a row can't be used; the message names file, line, column and what is allowed.
    """
    jobs: list[Job] = []
    lines: dict[str, int] = {}
    for row in read_rows(path, REQUIRED, EXAMPLE):
        job = _job(row, priorities or {})
        if job.job_id in lines:
            raise row.error("job_id", f"a name that no other row has (line {lines[job.job_id]} has it already)")
        lines[job.job_id] = row.line
        jobs.append(job)
    if not jobs:
        raise BadTable(f"{path}: has no rows; at least one job is needed, with the columns {', '.join(REQUIRED)}")
    return tuple(jobs)


def _job(row: Row, priorities: Mapping[str, int]) -> Job:
    job_id = row.text("job_id")
    if not job_id:
        raise row.error("job_id", "any name")
    return Job(
        job_id,
        row.number("submit_s", least=float("-inf")),
        row.whole("gpus"),
        row.number("duration_s"),
        row.text("user"),
        row.text("vc"),
        row.text("gpu_type"),
        _priority(row, priorities),
    )


def _priority(row: Row, priorities: Mapping[str, int]) -> int:
    said = row.text("priority")
    if not said:
        return 0
    if said in priorities:
        return priorities[said]
    try:
        return int(said)
    except ValueError:
        names = ", ".join(f"'{name}'" for name in priorities)
        raise row.error("priority", f"a whole number{f', or one of {names},' if names else ''} or nothing") from None


def in_order(jobs: Iterable[Job], seed: int) -> tuple[Job, ...]:
    """The jobs by their time of submission; ties keep their order with seed 0, and are shuffled with any other."""
    ordered: Sequence[Job] = sorted(jobs, key=lambda job: job.submit_s)
    if not seed:
        return tuple(ordered)
    generator = random.Random(seed)
    shuffled: list[Job] = []
    for _, tied in groupby(ordered, key=lambda job: job.submit_s):
        group = list(tied)
        generator.shuffle(group)
        shuffled += group
    return tuple(shuffled)
