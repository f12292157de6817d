"""Made-up loads for benchmarks: seeded, so that everybody gets the same jobs, and like no trace in particular.

What is taken from published descriptions of training clusters (Philly, ATC'19; Helios, SC'21; MAST, OSDI'24) is the
shape: most gangs ask one GPU and most GPU time goes to wide ones, durations span five decades (log-normal), arrivals
follow the hours of the day, and several come in the same second. Numbers are round ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from math import exp, log, pi, sin

from gang_simulator.jobs import Job

# GPUs -> share of the jobs.
MANY_SMALL: Mapping[int, float] = {1: 0.85, 2: 0.03, 4: 0.05, 8: 0.055, 16: 0.007, 32: 0.006, 64: 0.002}
MANY_WIDE: Mapping[int, float] = {1: 0.25, 2: 0.05, 4: 0.10, 8: 0.50, 16: 0.05, 32: 0.05}
LONGEST_S = 30 * 86_400.0
SWEEP = 0.3  # the share of jobs that are submitted in the second of the one before


def synthetic_jobs(
    count: int,
    gpus: int,
    *,
    load: float,
    seed: int,
    widths: Mapping[int, float] = MANY_SMALL,
    median_s: float = 1_800.0,
    sigma: float = 2.0,
) -> list[Job]:
    """So many jobs that together ask for `load` of `gpus` GPUs over the time in which they arrive.

    Args:
        count: jobs.
        gpus: of the cluster that they are meant for.
        load: GPU time asked for, as a part of the GPU time there is while they arrive.
        seed: of all that is drawn.
        widths: GPUs of a job, and how many of the jobs ask so many.
        median_s: of the durations.
        sigma: of the durations' logarithm.
    """
    generator = random.Random(seed)
    drawn = generator.choices(list(widths), list(widths.values()), k=count)
    at_s, jobs = 0.0, []
    for number, width in enumerate(drawn):
        if generator.random() >= SWEEP:
            day = sin(2 * pi * at_s / 24.0)  # one unit is an hour before the times are stretched
            at_s += generator.expovariate(1.0 + 0.6 * day)
        duration_s = min(exp(generator.gauss(log(median_s), sigma)), LONGEST_S)
        jobs.append(Job(f"job-{number}", at_s, width, float(round(duration_s) + 1), user=f"user-{number % 37}"))
    asked = sum(job.work_gpu_s for job in jobs)
    stretch = asked / (load * gpus) / (at_s or 1.0)
    return [replace(job, submit_s=float(round(job.submit_s * stretch))) for job in jobs]
