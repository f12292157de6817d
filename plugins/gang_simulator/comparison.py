"""The numbers of a simulation as lines for people; two simulations of one trace have the same lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADLINES = (
    ("mean JCT", "mean_jct_s"),
    ("p50", "p50_jct_s"),
    ("p99", "p99_jct_s"),
    ("p99.9", "p999_jct_s"),
    ("mean queue", "mean_queue_s"),
    ("p50", "p50_queue_s"),
    ("p99", "p99_queue_s"),
    ("p99.9", "p999_queue_s"),
)


def rows_of(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is told of a simulation at first sight: a name and a value with its unit."""
    fairness = numbers["fairness"]
    ratio = numbers["ratio_to_bound"]
    return [
        ("cluster", numbers["cluster"]),
        ("policy", f"{numbers['policy']} ({numbers['order']}, {numbers['blocking']} blocking)"),
        ("durations", numbers["durations"]),
        ("running gangs", numbers["running_gangs"]),
        ("jobs", f"{numbers['jobs']} done, {len(numbers['left_out'])} left out"),
        ("mean JCT", f"{numbers['mean_jct_s']:,.0f} s"),
        ("p50, p99, p99.9 JCT", _points(numbers, "jct")),
        ("mean queue time", f"{numbers['mean_queue_s']:,.0f} s"),
        ("p50, p99, p99.9 queue time", _points(numbers, "queue")),
        ("lower bound on mean JCT", f"{numbers['lower_bound_s']:,.0f} s{f' (x {ratio:.2f})' if ratio else ''}"),
        ("utilisation", _percent(numbers["utilisation"])),
        ("goodput of what was held", _percent(numbers["goodput"])),
        ("idle GPUs while gangs wait", _percent(numbers["idle_while_waiting"])),
        ("of those on nodes in part in use", _percent(numbers["fragmentation"])),
        ("fairness over queues, users", f"{_index(fairness['queues'])}, {_index(fairness['users'])}"),
        ("preemptions", str(numbers["preemptions"])),
        ("gangs hit by faults", str(numbers["gangs_hit_by_faults"])),
        ("work lost to faults", f"{numbers['work_lost_gpu_s'] / 3600:,.1f} GPU h"),
        ("spent on restarts", f"{numbers['restarting_gpu_s'] / 3600:,.1f} GPU h"),
        ("makespan", f"{numbers['makespan_s'] / 86400:,.1f} days"),
        ("seed", str(numbers["seed"])),
        ("took", f"{numbers['wall_s']:.1f} s"),
    ]


def _points(numbers: Mapping[str, Any], what: str) -> str:
    return ", ".join(f"{numbers[f'{point}_{what}_s']:,.0f}" for point in ("p50", "p99", "p999")) + " s"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _index(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
