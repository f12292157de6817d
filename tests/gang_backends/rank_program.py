"""A small program that follows the run contract: no torch, a step each 50 ms, ranks that meet through files.

The RunSpec says what it does: `steps` (0: until told to stop), `checkpoint_every`,
`fails_with` {rank, exit_code, raises}, `ignores_sigterm`, `leaves_child`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

RUN_DIR, LAUNCH_DIR = Path(os.environ["PHALANX_RUN_DIR"]), Path(os.environ["PHALANX_LAUNCH_DIR"])
RANK = int(os.environ["RANK"])
told_to_stop = False


def on_sigterm(number: int, frame: FrameType | None) -> None:
    global told_to_stop
    told_to_stop = True


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def commit(step: int) -> None:
    write(RUN_DIR / f"checkpoints/step-{step:08d}/commit.json", {"schema": 1, "step": step})


def end(exit_code: int, step: int) -> None:
    write(LAUNCH_DIR / f"outcome-rank{RANK}.json", {"exit_code": exit_code, "error": None, "step": step})
    sys.exit(exit_code)


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    signal.signal(signal.SIGTERM, signal.SIG_IGN if spec.get("ignores_sigterm") else on_sigterm)
    say(f"rank {RANK} is here")
    if spec.get("leaves_child"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    first = max((int(p.parent.name[5:]) for p in RUN_DIR.glob("checkpoints/*/commit.json")), default=0)
    launch = int(os.environ["PHALANX_ATTEMPT"])
    (RUN_DIR / "attempts").mkdir(exist_ok=True)
    attempt = 0
    if RANK == 0:
        attempt = len(list((RUN_DIR / "attempts").iterdir())) + 1
        (RUN_DIR / f"attempts/{attempt}").write_text(json.dumps({"attempt": attempt, "launch": launch}))
    step, last = first, spec.get("steps") or 10**9
    committed = first or None
    while step < last:
        step += 1
        time.sleep(0.05)
        fails = spec.get("fails_with", {})
        if fails.get("rank") == RANK:
            say("about to fail")
            if fails.get("raises"):
                raise RuntimeError(fails["raises"])
            sys.exit(fails["exit_code"])
        if RANK == 0:
            if step % spec.get("checkpoint_every", 5) == 0:
                commit(step)
                committed = step
            beat = {"schema": 1, "step": step, "total_steps": last, "loss": 1 / step, "attempt": attempt}
            beat |= {"launch": launch, "last_committed_step": committed, "phase": "training"}
            write(RUN_DIR / "heartbeat.json", beat)
        if told_to_stop:
            if RANK == 0:
                commit(step)
            end(75, step)
    if RANK == 0:
        write(RUN_DIR / "result.json", {"steps": step})
    end(0, step)


if __name__ == "__main__":
    main()
