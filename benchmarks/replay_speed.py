"""Jobs a second of a replay through the scheduler's own decisions, on a made-up load like that of a production cluster.

    .venv/bin/python benchmarks/replay_speed.py [--jobs 5000] [--runs 3]

16 nodes of 8 GPUs, asked for 95 % of their time (benchmarks/synthetic_jobs.py, MANY_SMALL: 85 % of the jobs ask one
GPU, durations log-normal). The reference row builds a snapshot and a plan for each decision; it shows what the kept
board saves, on fewer jobs. Fastest and slowest of the runs are shown: the machine's noise.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

from benchmarks.synthetic_jobs import synthetic_jobs
from benchmarks.trace_files import machine
from gang_scheduler.policy import Blocking
from gang_simulator.cluster import plain_cluster
from gang_simulator.settings import PolicyName, ReplaySettings, policy_of
from gang_simulator.simulation import Through, simulate

NODES, GPUS_PER_NODE, LOAD = 16, 8, 0.95
CASES = (
    (PolicyName.FIFO, Blocking.HEAD, Through.BOARD),
    (PolicyName.FIFO, Blocking.EASY, Through.BOARD),
    (PolicyName.DEFAULT, None, Through.BOARD),
    (PolicyName.SRSF, None, Through.BOARD),
    (PolicyName.LAS, None, Through.BOARD),
    (PolicyName.FIFO, Blocking.HEAD, Through.PLAN),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(machine())
    print("policy   blocking  through   jobs  jobs/s fastest  slowest  decisions  preemptions  queue s")
    cluster = plain_cluster(NODES, GPUS_PER_NODE)
    for policy, blocking, through in CASES:
        count = arguments.jobs if through is Through.BOARD else arguments.jobs // 20
        jobs = synthetic_jobs(count, cluster.gpus, load=LOAD, seed=1)
        settings = ReplaySettings(policy_of(policy, blocking), policy, durations_are_known=policy is not PolicyName.LAS)
        rates: list[float] = []
        found: dict[str, Any] = {}
        for _ in range(arguments.runs):
            began_s = perf_counter()
            found = simulate(jobs, cluster, settings, through=through).numbers
            rates.append(count / (perf_counter() - began_s))
        print(
            f"{policy:<8} {settings.policy.blocking:<9} {through:<7} {count:>6} {max(rates):>15,.0f} "
            f"{min(rates):>8,.0f} {found['decisions']:>10,} {found['preemptions']:>12,} {found['mean_queue_s']:>8,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
