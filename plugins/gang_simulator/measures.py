"""What a replay came to, as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gang_simulator.bound import mean_jct_bound_s
from gang_simulator.cluster import Cluster
from gang_simulator.replay import Replayed
from gang_simulator.settings import ReplaySettings
from gang_simulator.sim_gang import SimGang


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that was not replayed, and why it could never run here."""

    job_id: str
    gpus: int
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles of completion time (end less submission) and queue time (all waits together), in seconds."""

    jobs: int
    mean_jct_s: float
    p50_jct_s: float
    p99_jct_s: float
    p999_jct_s: float
    mean_queue_s: float
    p50_queue_s: float
    p99_queue_s: float
    p999_queue_s: float
    longest_queue_s: float

    @staticmethod
    def of(gangs: Sequence[SimGang]) -> Spread:
        """Over gangs that have ended."""
        jct = sorted(jct_s(gang) for gang in gangs)
        queue = sorted(queue_s(gang) for gang in gangs)
        return Spread(
            jobs=len(gangs),
            mean_jct_s=_mean(jct),
            p50_jct_s=percentile(jct, 0.5),
            p99_jct_s=percentile(jct, 0.99),
            p999_jct_s=percentile(jct, 0.999),
            mean_queue_s=_mean(queue),
            p50_queue_s=percentile(queue, 0.5),
            p99_queue_s=percentile(queue, 0.99),
            p999_queue_s=percentile(queue, 0.999),
            longest_queue_s=percentile(queue, 1.0),
        )


def jct_s(gang: SimGang) -> float:
    """From submission to end."""
    assert gang.ended_s is not None
    return gang.ended_s - gang.submitted_s


def queue_s(gang: SimGang) -> float:
    """All that it waited: for its first start, after it was stopped, and after faults."""
    return gang.waited_s


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, interpolated between neighbours; 0 of none."""
    if not ordered:
        return 0.0
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has everything; None of fewer than two."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if len(values) > 1 and squares else None


def service_rate(gangs: Iterable[SimGang]) -> float:
    """Seconds of work done for each second between submission and end: 1 for those that never waited."""
    work = total = 0.0
    for gang in gangs:
        work += gang.job.duration_s
        total += jct_s(gang)
    return work / total if total else 1.0


def measure(
    replayed: Replayed, cluster: Cluster, settings: ReplaySettings, left_out: Sequence[LeftOut], wall_s: float
) -> dict[str, Any]:
    """The document that is printed as JSON; units are in the names."""
    ended = [gang for gang in replayed.gangs if gang.ended_s is not None]
    by_queue = grouped(ended, lambda gang: gang.job.vc or gang.request.gang_queue)
    by_user = grouped(ended, lambda gang: gang.job.user)
    overall = Spread.of(ended)
    held = sum(gang.held_s * gang.job.gpus for gang in ended)
    useful = sum(gang.job.work_gpu_s / _fastest(cluster) for gang in ended)
    bound_s = _bound_s(ended, cluster)
    return {
        **asdict(overall),
        "lower_bound_s": bound_s,
        "ratio_to_bound": overall.mean_jct_s / bound_s if bound_s else None,
        "utilisation": _utilisation(ended, cluster),
        "goodput": useful / held if held else None,
        "fragmentation": _fragmentation(replayed),
        "idle_while_waiting": _idle_while_waiting(replayed),
        "fairness": {
            "queues": jain([service_rate(gangs) for gangs in by_queue.values()]),
            "users": jain([service_rate(gangs) for gangs in by_user.values()]),
        },
        "makespan_s": _makespan_s(ended),
        "preemptions": sum(gang.preemptions for gang in replayed.gangs),
        "gangs_hit_by_faults": replayed.faults_met,
        "work_lost_gpu_s": sum(gang.lost_s * gang.job.gpus for gang in replayed.gangs),
        "restarting_gpu_s": sum(gang.overheads_s * gang.job.gpus for gang in replayed.gangs),
        "by_width": {str(width): asdict(Spread.of(gangs)) for width, gangs in sorted(_by_width(ended).items())},
        "by_queue": {name: asdict(Spread.of(gangs)) for name, gangs in sorted(by_queue.items())},
        "left_out": [asdict(job) for job in left_out],
        "never_started": replayed.never_started,
        "cluster": cluster.label,
        "gpus": cluster.gpus,
        "policy": settings.policy_name,
        "order": settings.policy.order.value,
        "blocking": settings.policy.blocking.value,
        "durations": "known" if settings.durations_are_known else "unknown",
        "running_gangs": moves(cluster, settings),
        "restart_cost_s": str(settings.restart_cost),
        "checkpoint_every_s": settings.checkpoint_every.total_seconds() if settings.checkpoint_every else None,
        "seed": settings.seed,
        "decisions": replayed.decisions,
        "wall_s": wall_s,
        "jobs_per_s": len(ended) / wall_s if wall_s else None,
    }


def moves(cluster: Cluster, settings: ReplaySettings) -> str:
    """Whether running gangs may be moved, and at what cost, as a sentence."""
    policy = settings.policy
    whys = []
    if policy.preempts_by_order:
        whys.append("for gangs that come before them in the order")
    if policy.preempts_by_priority:
        whys.append("for gangs of higher priority")
    if policy.reclaims_quota and cluster.queues:
        whys.append("when they hold borrowed quota that its owner wants back")
    if not whys:
        return "are never stopped but by faults"
    cost = settings.restart_cost
    price = (
        "at no cost"
        if str(cost) == "none"
        else f"and spend {cost} s (1, at most 8, more GPUs) without progress when they start again"
    )
    return (
        f"may be stopped {', '.join(whys)}; they save their state at once, lose no work, start again anywhere {price}"
    )


def grouped(gangs: Iterable[SimGang], name_of: Callable[[SimGang], str]) -> dict[str, list[SimGang]]:
    """The gangs by a name; those whose name is empty are left out."""
    found: dict[str, list[SimGang]] = {}
    for gang in gangs:
        if name := name_of(gang):
            found.setdefault(name, []).append(gang)
    return found


def _by_width(gangs: Iterable[SimGang]) -> dict[int, list[SimGang]]:
    found: dict[int, list[SimGang]] = {}
    for gang in gangs:
        found.setdefault(gang.job.gpus, []).append(gang)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _fastest(cluster: Cluster) -> float:
    return max((node.compute for node in cluster.nodes if node.capacity.gpus), default=1.0)


def _bound_s(ended: Sequence[SimGang], cluster: Cluster) -> float:
    """With every job as fast as on the fastest node, so that it stays a bound where nodes differ."""
    fastest = _fastest(cluster)
    return mean_jct_bound_s(
        [replace(gang.job, duration_s=gang.job.duration_s / fastest) for gang in ended], cluster.gpus
    )


def _makespan_s(ended: Sequence[SimGang]) -> float:
    if not ended:
        return 0.0
    return max(gang.ended_s or 0.0 for gang in ended) - min(gang.submitted_s for gang in ended)


def _utilisation(ended: Sequence[SimGang], cluster: Cluster) -> float:
    """GPU time held, of all GPU time from the first submission to the last end, faulty nodes included."""
    room = _makespan_s(ended) * cluster.gpus
    return sum(gang.held_s * gang.job.gpus for gang in ended) / room if room else 0.0


def _fragmentation(replayed: Replayed) -> float:
    """The part of free GPU time that lay on nodes in part in use, while gangs waited."""
    stranded = free = 0.0
    for moment, following in zip(replayed.moments, replayed.moments[1:], strict=False):
        if moment.waiting:
            length_s = following.at_s - moment.at_s
            stranded += moment.stranded_gpus * length_s
            free += (moment.usable_gpus - moment.held_gpus) * length_s
    return stranded / free if free else 0.0


def _idle_while_waiting(replayed: Replayed) -> float:
    """The part of usable GPU time that was free while gangs waited."""
    free = usable = 0.0
    for moment, following in zip(replayed.moments, replayed.moments[1:], strict=False):
        length_s = following.at_s - moment.at_s
        usable += moment.usable_gpus * length_s
        if moment.waiting:
            free += (moment.usable_gpus - moment.held_gpus) * length_s
    return free / usable if usable else 0.0
