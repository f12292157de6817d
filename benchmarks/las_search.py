"""The parameter search behind the defaults of least attained service: on made-up loads only, never on a trace.

    .venv/bin/python benchmarks/las_search.py

Searched: the factor by which each class of attained GPU time is wider than the one before (`las_factor`), and by how
many classes a running gang must be behind to be stopped (`las_gap`). Twelve seeded loads on 64 GPUs; shown is the mean
over them of mean completion time over mean duration, and the stops. Of those within 1 % of the best, the one with the
fewest stops was taken.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

from benchmarks.synthetic_jobs import MANY_SMALL, MANY_WIDE, synthetic_jobs
from gang_simulator.cluster import plain_cluster
from gang_simulator.jobs import Job
from gang_simulator.settings import PolicyName, ReplaySettings, policy_of
from gang_simulator.simulation import simulate

GPUS = 64
CHOICES = ((2.0, 1), (2.0, 2), (2.0, 3), (2.0, 4), (4.0, 1), (4.0, 2), (4.0, 3), (10.0, 1), (10.0, 2))


def loads(count: int) -> list[list[Job]]:
    """The loads: two mixes of widths, two spreads of durations, three seeds."""
    return [
        synthetic_jobs(count, GPUS, load=1.0, seed=seed, widths=widths, median_s=3_600.0, sigma=sigma)
        for widths in ({w: share for w, share in MANY_SMALL.items() if w <= GPUS // 2}, MANY_WIDE)
        for sigma in (2.0, 2.5)
        for seed in (1, 2, 3)
    ]


def main() -> None:
    """Print a line for each choice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=400)
    made = loads(parser.parse_args().jobs)
    print("factor  gap  mean completion / mean duration  stops")
    for factor, gap in CHOICES:
        policy = replace(policy_of(PolicyName.LAS, None), las_factor=factor, las_gap=gap)
        settings = ReplaySettings(policy, PolicyName.LAS, durations_are_known=False)
        ratios, stops = [], 0
        for jobs in made:
            found = simulate(jobs, plain_cluster(GPUS // 8, 8), settings).numbers
            ratios.append(found["mean_jct_s"] / statistics.mean(job.duration_s for job in jobs))
            stops += found["preemptions"]
        print(f"{factor:>6g} {gap:>4} {statistics.mean(ratios):>32.3f} {stops:>6,}", flush=True)


if __name__ == "__main__":
    main()
