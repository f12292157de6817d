"""Does a replay agree with other simulators to the second? One node of 8 GPUs, nobody passes, restarts cost nothing.

    .venv/bin/python benchmarks/exactness.py

Two independent simulators agree on these means for the 258 jobs of `msitp/cluster10` that fit.
"""

from __future__ import annotations

import sys

from benchmarks.trace_files import machine, trace
from gang_scheduler.policy import Blocking
from gang_simulator.cluster import plain_cluster
from gang_simulator.settings import NO_RESTART_COST, PolicyName, ReplaySettings, policy_of
from gang_simulator.simulation import Through, simulate

KNOWN_MEAN_JCT_S = {PolicyName.FIFO: 303_089.8, PolicyName.SJF: 130_103.5}
TOLERANCE = 0.01


def main() -> None:
    """Print the table; exit with 1 if a mean is off."""
    print(machine())
    print("policy  through  jobs  left out  mean JCT s   others say    off by")
    jobs, is_off = trace("msitp/cluster10"), False
    for policy, known_s in KNOWN_MEAN_JCT_S.items():
        settings = ReplaySettings(policy_of(policy, Blocking.HEAD), policy, restart_cost=NO_RESTART_COST)
        for through in Through:
            found = simulate(jobs, plain_cluster(1, 8), settings, through=through).numbers
            off = found["mean_jct_s"] / known_s - 1
            is_off |= abs(off) > TOLERANCE or found["jobs"] != 258
            print(
                f"{policy:<7} {through:<7} {found['jobs']:>5} {len(found['left_out']):>9} "
                f"{found['mean_jct_s']:>11,.1f} {known_s:>12,.1f} {off:>9.4%}"
            )
    sys.exit(int(is_off))


if __name__ == "__main__":
    main()
