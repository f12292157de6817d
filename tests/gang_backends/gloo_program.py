"""Ranks that talk to each other through torch: they sum what each holds, over and over, until told to stop."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

told = torch.zeros(1)


@record
def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    signal.signal(signal.SIGTERM, lambda *_: told.fill_(1))
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, step = dist.get_rank(), 0
    while True:
        step += 1
        held = torch.tensor([float(spec["holds"])])
        dist.all_reduce(held)
        stop = told.clone()
        dist.all_reduce(stop)
        if rank == 0:
            beat = {"schema": 1, "step": step, "loss": held.item(), "launch": int(os.environ["PHALANX_ATTEMPT"])}
            path = Path(os.environ["PHALANX_RUN_DIR"]) / "heartbeat.json"
            path.with_suffix(".new").write_text(json.dumps(beat))
            path.with_suffix(".new").replace(path)
        if stop.item():
            break
        if spec.get("fails_at") == step and rank == 1:
            raise ValueError(f"step {step} is bad luck\nand its message has two lines")
        time.sleep(0.02)
    dist.destroy_process_group()
    sys.exit(75)


if __name__ == "__main__":
    main()
