"""A stand-in for the torchrun agent, on the path before torch: same options and ends without the seconds torch takes.

It is for tests of what surrounds the agent; it prints no report at its end, and tests of that use torchrun.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def main(arguments: list[str]) -> int:
    options = dict(argument[2:].partition("=")[::2] for argument in arguments if argument.startswith("--"))
    program = arguments[arguments.index("--no-python") + 1 :]
    workers = int(options["nproc-per-node"])
    ranks = [
        subprocess.Popen(
            program,
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers)},
            start_new_session=True,
        )
        for rank in range(workers)
    ]
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks):
            for rank in ranks:
                if rank.poll() is None:
                    os.killpg(rank.pid, signal.SIGTERM)
                rank.wait()
        time.sleep(0.05)
    return int(any(rank.returncode for rank in ranks))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
