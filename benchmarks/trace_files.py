"""Where the traces of the benchmarks are, and the machine that they run on."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from gang_simulator.jobs import Job, read_jobs

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"


def trace(name: str) -> list[Job]:
    """The jobs of a trace such as `muri/trace3`; ends the program if it is not there."""
    path = TRACES / f"{name}.csv.gz"
    if not path.exists():
        sys.exit(f"{path} is not there; the traces lie in shared/traces beside the checkout")
    return list(read_jobs(path))


def machine() -> str:
    """What ran it, and how busy it was: times depend on both, the simulated figures on neither."""
    load, _, _ = os.getloadavg()
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} at the start"
