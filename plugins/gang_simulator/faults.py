"""Node faults of a trace: which node was out of use from when until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gang_simulator.csv_rows import read_rows

REQUIRED = ("node", "start_s", "end_s")
EXAMPLE = "node,start_s,end_s,class"


@dataclass(frozen=True, slots=True)
class Fault:
    """A node is out of use; seconds on the clock of the jobs' `submit_s`."""

    node: str
    start_s: float
    end_s: float
    cause: str = ""


def read_faults(path: Path, nodes: Sequence[str]) -> tuple[tuple[Fault, ...], int]:
    """The faults that meet the cluster's nodes, by their start, and the number of rows that meet none.

    A node is given by its name, or by its number from 0 in the order of the cluster's nodes.

    Raises:
        BadTable: a row can't be used; the message names file, line, column and what is allowed.
    """
    names = set(nodes)
    faults: list[Fault] = []
    passed_over = 0
    for row in read_rows(path, REQUIRED, EXAMPLE):
        said = row.text("node")
        if said not in names:
            number = row.whole("node")
            if number >= len(nodes):
                passed_over += 1
                continue
            said = nodes[number]
        start_s = row.number("start_s", least=float("-inf"))
        end_s = row.number("end_s", least=start_s)
        if end_s > start_s:
            faults.append(Fault(said, start_s, end_s, row.text("class")))
    return tuple(sorted(faults, key=lambda fault: (fault.start_s, fault.node, fault.end_s))), passed_over
