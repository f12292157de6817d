"""Mean completion time on two published traces, 8 nodes of 8 GPUs, beside what others published on the same.

    .venv/bin/python benchmarks/muri_quality.py [--trace trace3] [--seeds 0,1,2]

Gangs have their GPUs for themselves. `srsf` and `las` may stop and move what runs at no loss of work, and pay 7, 30 or
60 s at a restart (1, at most 8, more GPUs); `default` stops nobody here. Ties of submission are as in the file with
seed 0, shuffled with others: that is the noise. Policies are as they come; nothing was chosen on these traces.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.trace_files import machine, trace
from gang_simulator.cluster import plain_cluster
from gang_simulator.settings import PolicyName, ReplaySettings, policy_of
from gang_simulator.simulation import simulate

# Muri (SIGCOMM'22), figures 9 and 10: the best policy with exclusive GPUs and known durations, and Tiresias.
PUBLISHED = {
    "trace3": {"SRSF": 185_022, "SRTF": 193_082, "Tiresias": 347_213},
    "trace4": {"SRSF": 487_167, "SRTF": 581_983, "Tiresias": 1_319_383},
}
POLICIES = (PolicyName.DEFAULT, PolicyName.SRSF, PolicyName.LAS)
HOUR_S = 3_600.0


def main() -> None:
    """Print a table for each trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", choices=PUBLISHED, action="append")
    parser.add_argument("--seeds", default="0")
    arguments = parser.parse_args()
    print(machine())
    for name in arguments.trace or PUBLISHED:
        jobs = trace(f"muri/{name}")
        print(f"\n{name}, published: " + ", ".join(f"{who} {value:,}" for who, value in PUBLISHED[name].items()))
        print("policy   seed  mean JCT s  x bound  p99.9 wait h  widest  their p99.9  longest h  preemptions  wall s")
        for policy in POLICIES:
            for seed in map(int, arguments.seeds.split(",")):
                began_s = time.monotonic()
                settings = ReplaySettings(
                    policy_of(policy, None), policy, durations_are_known=policy is not PolicyName.LAS, seed=seed
                )
                found = simulate(jobs, plain_cluster(8, 8), settings).numbers
                width = max(found["by_width"], key=int)
                print(
                    f"{policy:<8} {seed:>4} {found['mean_jct_s']:>11,.0f} {found['ratio_to_bound']:>8.2f} "
                    f"{found['p999_queue_s'] / HOUR_S:>13,.0f} {width:>7} "
                    f"{found['by_width'][width]['p999_queue_s'] / HOUR_S:>12,.0f} "
                    f"{found['longest_queue_s'] / HOUR_S:>10,.0f} {found['preemptions']:>12,} "
                    f"{time.monotonic() - began_s:>7.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
