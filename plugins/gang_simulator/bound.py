"""A lower bound on the mean completion time of any schedule without preemption costs: how far from the best one is."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from gang_simulator.jobs import Job


def mean_jct_bound_s(jobs: Sequence[Job], gpus: int) -> float:
    """The largest of three bounds for rigid jobs on exclusive GPUs, with all `gpus` taken as one pool.

    Each job takes at least its duration. With its work w = width x duration spread over any number of GPUs, one machine
    of speed `gpus` that always runs the least remaining work (SRPT) has the least mean completion time. On the same
    machine, running the job of the least whole work gives the least sum of mean busy times M; a rigid job's mean
    busy time is at most its end less half its duration (Schulz and Skutella's mean-busy-time bound), so M - r + d/2
    bounds it.
    """
    if not jobs or gpus <= 0:
        return 0.0
    mean_duration = sum(job.duration_s for job in jobs) / len(jobs)
    by_remaining, _ = _one_machine(jobs, gpus, by_remaining=True)
    _, busy = _one_machine(jobs, gpus, by_remaining=False)
    mean_busy = sum(
        mean - job.submit_s + job.duration_s / 2
        for mean, job in zip(busy, sorted(jobs, key=lambda job: job.submit_s), strict=True)
    )
    return max(mean_duration, by_remaining, mean_busy / len(jobs))


def _one_machine(jobs: Sequence[Job], speed: int, *, by_remaining: bool) -> tuple[float, list[float]]:
    """The mean completion time, and each job's mean busy time, of one machine that may preempt at no cost."""
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    left = [job.work_gpu_s / speed for job in ordered]
    whole = left.copy()
    busy = [job.submit_s for job in ordered]  # of a job without work: its submission
    sums = [0.0] * len(ordered)
    ready: list[tuple[float, int]] = []
    now_s, coming, total_jct = 0.0, 0, 0.0
    while ready or coming < len(ordered):
        if not ready:
            now_s = max(now_s, ordered[coming].submit_s) if coming else ordered[coming].submit_s
        while coming < len(ordered) and ordered[coming].submit_s <= now_s:
            heappush(ready, (whole[coming], coming))
            coming += 1
        _, number = heappop(ready)
        next_s = ordered[coming].submit_s if coming < len(ordered) else float("inf")
        run_s = min(left[number], next_s - now_s)
        sums[number] += run_s * (now_s + run_s / 2)
        is_over = left[number] <= next_s - now_s
        now_s = now_s + run_s if is_over else next_s
        left[number] -= run_s
        if is_over:
            total_jct += now_s - ordered[number].submit_s
            if whole[number] > 0:
                busy[number] = sums[number] / whole[number]
        else:
            heappush(ready, (left[number] if by_remaining else whole[number], number))
    return total_jct / len(ordered), busy
