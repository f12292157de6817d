"""`phalanx pack`: how much of a cluster's GPUs a workload that asks for shares of them would use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from gang_simulator.csv_rows import BadTable
from gang_simulator.packing import NotPackable
from gang_simulator.packing import pack as pack_pods
from gang_simulator.packing_input import NODE_COLUMNS, POD_COLUMNS, read_nodes, read_pods
from gang_simulator.packing_policies import DEFAULT_POLICY
from phalanx_cli.output import Json, fail, print_facts, print_json, print_table, say


def pack(
    pods: Annotated[Path, typer.Argument(help=f"CSV or .csv.gz with the columns {', '.join(POD_COLUMNS)}.")],
    nodes: Annotated[Path, typer.Argument(help=f"CSV or .csv.gz with the columns {', '.join(NODE_COLUMNS)}.")],
    demand: Annotated[float, typer.Option(help="How much is asked for, as a multiple of all GPUs.")] = 1.3,
    seed: Annotated[int, typer.Option(help="Of the draw of pods.")] = 0,
    policy: Annotated[
        str,
        typer.Option(
            help="fill: keep free what typical pods can use; fgd: the published fragmentation gradient descent; "
            "best-fit: least left free; first-fit: by name."
        ),
    ] = DEFAULT_POLICY,
    as_json: Json = False,
) -> None:
    """Draw pods from a workload, with replacement, until they ask for more than there is; pack them; report the use."""
    began = perf_counter()
    try:
        result = pack_pods(read_pods(pods), read_nodes(nodes), demand=demand, seed=seed, policy=policy)
    except (BadTable, NotPackable) as error:
        fail(error, as_json)
    wall_s = perf_counter() - began
    if as_json:
        by_width = {width: {"placed": done, "failed": left} for width, (done, left) in result.by_width.items()}
        print_json(asdict(result) | {"by_width": by_width, "wall_s": round(wall_s, 3)})
        return
    print_facts(
        {
            "GPU allocation": f"{result.gpu_allocation:.2f} % of {result.gpus} GPUs on {result.nodes} nodes",
            "asked for": f"{result.gpus_asked:.1f} GPUs",
            "policy": result.policy,
            "seed": str(result.seed),
            "wall time": f"{wall_s:.1f} s",
        }
    )
    say("")
    rows = [(width, done + left, done, left) for width, (done, left) in result.by_width.items()]
    rows.append(("all", result.pods_placed + result.pods_failed, result.pods_placed, result.pods_failed))
    print_table(("GPUs a pod", "pods", "placed", "failed"), rows, "no pods")
