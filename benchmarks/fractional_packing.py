"""How much of a cluster's GPUs is used when pods ask for shares: `python benchmarks/fractional_packing.py`.

Production pods on production nodes (Alibaba's GPU cluster trace of 2023: `openb`, 1,213 nodes with 6,212 GPUs). Pods
only arrive, drawn with replacement until they have asked for 130 % of all GPUs, a line a seed. `--synthetic 32` packs
made-up loads instead, a line a load. "widest pods" is the part of the widest pods that was placed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from time import process_time

from benchmarks.packing_loads import load
from gang_scheduler.sharing import NodeShare, ShareAsk
from gang_simulator.packing import pack
from gang_simulator.packing_input import read_nodes, read_pods
from gang_simulator.packing_policies import POLICIES

TRACES = Path(__file__).parents[2] / "shared" / "traces" / "openb"
Load = tuple[str, int, list[ShareAsk] | tuple[ShareAsk, ...], dict[str, NodeShare]]


def loads(options: argparse.Namespace) -> Iterable[Load]:
    """A name, the seed of the draw, pods and nodes."""
    if options.synthetic:
        return ((f"load {number}", 0, *load(number)) for number in range(options.synthetic))
    pods, nodes = read_pods(options.traces / "default.csv.gz"), read_nodes(options.traces / "nodes_all.csv.gz")
    return ((f"seed {seed}", seed, pods, nodes) for seed in range(options.seeds))


def main() -> None:
    """Print the allocation in percent, a column a policy; then the means, and how far above best fit they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder with default.csv.gz and nodes_all.csv.gz")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to this, itself left out")
    parser.add_argument("--synthetic", type=int, default=0, help="so many made-up loads instead of the trace")
    parser.add_argument("--demand", type=float, default=1.3, help="as a multiple of all GPUs")
    options = parser.parse_args()
    used: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    widest: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    cpu_s = dict.fromkeys(POLICIES, 0.0)
    print(f"{'percent':<12}" + "".join(f"{policy:>12}" for policy in POLICIES), flush=True)
    for name, seed, pods, nodes in loads(options):
        for policy in POLICIES:
            began = process_time()
            packed = pack(pods, nodes, demand=options.demand, seed=seed, policy=policy)
            cpu_s[policy] += process_time() - began
            used[policy].append(packed.gpu_allocation)
            placed, failed = list(packed.by_width.values())[-1]
            widest[policy].append(100 * placed / (placed + failed))
        print(f"{name:<12}" + "".join(f"{used[policy][-1]:>12.2f}" for policy in POLICIES), flush=True)
    for what, figures in (
        ("mean", {policy: mean(used[policy]) for policy in POLICIES}),
        ("- best fit", {policy: mean(used[policy]) - mean(used["best-fit"]) for policy in POLICIES}),
        ("widest pods", {policy: mean(widest[policy]) for policy in POLICIES}),
        ("CPU s a run", {policy: cpu_s[policy] / len(used[policy]) for policy in POLICIES}),
    ):
        print(f"{what:<12}" + "".join(f"{figures[policy]:>12.2f}" for policy in POLICIES))


if __name__ == "__main__":
    main()
