"""One simulation: jobs onto a cluster by some rules; what can never fit is left out with its reason."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from gang_scheduler.admission import why_never
from gang_simulator.by_board import BoardDecider
from gang_simulator.by_plan import PlanDecider
from gang_simulator.cluster import Cluster, request_of
from gang_simulator.faults import Fault
from gang_simulator.jobs import Job, in_order
from gang_simulator.measures import LeftOut, measure
from gang_simulator.replay import OnProgress, Replay, Replayed
from gang_simulator.settings import ReplaySettings


class Through(StrEnum):
    """How decisions are made; both make the same."""

    BOARD = "board"  # the plan's working state, kept over the whole replay
    PLAN = "plan"  # a snapshot and a plan for each decision, as a live scheduler does it


@dataclass(frozen=True, slots=True)
class Simulation:
    """What was replayed, and what came of it; `numbers` is the document of `measure`."""

    cluster: Cluster
    settings: ReplaySettings
    replayed: Replayed
    numbers: dict[str, Any]


def simulate(
    jobs: Sequence[Job],
    cluster: Cluster,
    settings: ReplaySettings,
    *,
    faults: Sequence[Fault] = (),
    through: Through = Through.BOARD,
    on_progress: OnProgress | None = None,
) -> Simulation:
    """Replay the jobs.

    Raises:
        ValueError: none of the jobs fits onto the cluster.
    """
    began_s = time.monotonic()
    fitting, left_out = _sorted_out(jobs, cluster)
    if not fitting:
        raise ValueError(f"none of the {len(jobs)} jobs fits onto the cluster; the first: {left_out[0].reason}")
    decider = BoardDecider(cluster, settings) if through is Through.BOARD else PlanDecider(cluster, settings)
    replay = Replay(in_order(fitting, settings.seed), cluster, settings, decider, faults, on_progress)
    replayed = replay.run()
    wall_s = time.monotonic() - began_s
    return Simulation(cluster, settings, replayed, measure(replayed, cluster, settings, left_out, wall_s))


def _sorted_out(jobs: Sequence[Job], cluster: Cluster) -> tuple[list[Job], list[LeftOut]]:
    fitting: list[Job] = []
    left_out: list[LeftOut] = []
    reasons: dict[tuple[int, str, str], str | None] = {}
    for job in jobs:
        kind = job.gpus, cluster.queue_of(job), job.gpu_type
        if kind not in reasons:
            reasons[kind] = _why_never(job, cluster)
        reason = reasons[kind]
        if reason is None:
            fitting.append(job)
        else:
            left_out.append(LeftOut(job.job_id, job.gpus, reason))
    return fitting, left_out


def _why_never(job: Job, cluster: Cluster) -> str | None:
    if job.gpus < 1:
        return "asks no GPU; only jobs with GPUs are replayed"
    if job.gpus > cluster.gpus:
        return f"asks {job.gpus} GPUs; {cluster.label} hold {cluster.gpus}"
    request = request_of(job, 0, cluster, durations_are_known=False, checkpoint_every_s=None)
    request = replace(request, gang_id=job.job_id)
    return why_never(request, cluster.nodes, cluster.pools)
