"""What three teams win by pooling their clusters: ITP clusters 02, 05 and 10, apart and together.

    .venv/bin/python benchmarks/pooling.py [--policy default] [--seeds 0]

Apart: each cluster's jobs on its own nodes, 13, 1 and 2 of 8 GPUs. Quotas: all on the sum of the nodes, each queue with
a quota equal to its own nodes in one cohort, borrowing without limit. Pooled: the same without quotas.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.trace_files import machine, trace
from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.policy import Policy
from gang_simulator.cluster import POOL, Cluster, plain_cluster
from gang_simulator.jobs import Job
from gang_simulator.settings import PolicyName, ReplaySettings, policy_of
from gang_simulator.simulation import simulate

NODES = {"cluster02": 13, "cluster05": 1, "cluster10": 2}
GPUS_PER_NODE = 8
Waits = Mapping[str, tuple[int, float, float]]  # queue -> jobs, mean and p99 of queue time in s


def with_quotas() -> Cluster:
    """All nodes; each queue owns as many GPUs as it had nodes for, and borrows what others leave."""
    queues = tuple(
        QueueView(name, cohort="all", quotas=(Quota(POOL, "gpus", float(nodes * GPUS_PER_NODE)),))
        for name, nodes in NODES.items()
    )
    return replace(plain_cluster(sum(NODES.values()), GPUS_PER_NODE), queues=queues)


def waits(jobs: list[Job], cluster: Cluster, policy: Policy, name: PolicyName, seed: int) -> tuple[Waits, int]:
    """Queue times by queue, and preemptions."""
    found = simulate(jobs, cluster, ReplaySettings(policy, name, seed=seed)).numbers
    parts = found["by_queue"].items()
    return {queue: (part["jobs"], part["mean_queue_s"], part["p99_queue_s"]) for queue, part in parts}, found[
        "preemptions"
    ]


def mean_s(found: Waits) -> float:
    """Over all jobs."""
    return sum(jobs * mean for jobs, mean, _ in found.values()) / sum(jobs for jobs, _, _ in found.values())


def main() -> None:
    """Print a table for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=PolicyName, default=PolicyName.DEFAULT)
    parser.add_argument("--seeds", default="0")
    arguments = parser.parse_args()
    print(machine())
    traces = {name: trace(f"msitp/{name}") for name in NODES}
    # Only jobs that their own cluster could have run are in all three; the rest is left out everywhere.
    own = {name: [job for job in jobs if job.gpus <= NODES[name] * GPUS_PER_NODE] for name, jobs in traces.items()}
    together = [replace(job, job_id=f"{name}/{job.job_id}") for name, jobs in own.items() for job in jobs]
    policy = policy_of(arguments.policy, None)
    for seed in map(int, arguments.seeds.split(",")):
        began_s = time.monotonic()
        apart: dict[str, tuple[int, float, float]] = {}
        for name, jobs in own.items():
            apart |= waits(jobs, plain_cluster(NODES[name], GPUS_PER_NODE), policy, arguments.policy, seed)[0]
        quotas, stops = waits(together, with_quotas(), policy, arguments.policy, seed)
        pooled, _ = waits(together, plain_cluster(sum(NODES.values()), GPUS_PER_NODE), policy, arguments.policy, seed)
        print(f"\n{arguments.policy}, seed {seed}: {len(together)} jobs, {time.monotonic() - began_s:.1f} s")
        print("queue time in s        apart               quotas              pooled")
        print("                  mean       p99      mean       p99      mean       p99")
        for name in NODES:
            cells = "".join(f"{each[name][1]:>10,.0f}{each[name][2]:>10,.0f}" for each in (apart, quotas, pooled))
            worse = "   p99 is worse than apart" if quotas[name][2] > apart[name][2] else ""
            print(f"{name:<12}{cells}{worse}")
        before, by_quotas, without = mean_s(apart), mean_s(quotas), mean_s(pooled)
        print(f"{'all':<12}{before:>10,.0f}{'':>10}{by_quotas:>10,.0f}{'':>10}{without:>10,.0f}")
        gain = (before - by_quotas) / (before - without)
        print(
            f"with quotas the mean falls {before / by_quotas:.1f}-fold, without {before / without:.1f}-fold: "
            f"{gain:.3f} of the gain; {stops} preemptions with quotas"
        )


if __name__ == "__main__":
    main()
