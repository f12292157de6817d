"""Starts training as a gang's supervisor does: torchrun over two ranks, a run folder, a built environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.spec_file import AnySpec

DEADLINE_S = 180


@dataclass
class Launches:
    """The launches of one submission; the run folder is theirs in common."""

    run_dir: Path
    spec: AnySpec
    count: int = 0
    logs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        (self.run_dir / "run_spec.json").write_text(self.spec.to_json())

    def start(self, **extra: str) -> subprocess.Popen[str]:
        """Start the next launch; `extra` is added to its environment."""
        self.count += 1
        launch_dir = self.run_dir / f"launch-{self.count}"
        launch_dir.mkdir()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.run_dir),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])),
            "OMP_NUM_THREADS": "1",
            "PHALANX_GANG_ID": "nightly/run/train",
            "PHALANX_SUBMISSION": "1",
            "PHALANX_ATTEMPT": str(self.count),
            "PHALANX_RUN_DIR": str(self.run_dir),
            "PHALANX_LAUNCH_DIR": str(launch_dir),
        }
        options = ["--max-restarts=0", "--nnodes=1", f"--nproc-per-node={self.spec.workers}"]
        options += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
        program = ["-m", "training.train", str(self.run_dir / "run_spec.json")]
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *options, *program],
            env=environment | extra,
            cwd=self.run_dir,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(self, process: subprocess.Popen[str]) -> int:
        """Wait for the agent's end; what it wrote is appended to `logs`."""
        try:
            self.logs.append(process.communicate(timeout=DEADLINE_S)[0])
        finally:
            process.kill()
        return process.returncode

    def run(self, **extra: str) -> int:
        """Start the next launch and wait for its end."""
        return self.finish(self.start(**extra))

    def outcome(self, rank: int) -> dict[str, Any] | None:
        """What the rank of the last launch said of its end."""
        path = self.run_dir / f"launch-{self.count}" / f"outcome-rank{rank}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def exit_codes(self) -> list[int | None]:
        """Each rank's own exit code; None where it was killed."""
        outcomes = [self.outcome(rank) for rank in range(self.spec.workers)]
        return [outcome["exit_code"] if outcome else None for outcome in outcomes]

    def result(self) -> dict[str, Any]:
        """What rank 0 left on success, but for where it lies."""
        content: dict[str, Any] = json.loads((self.run_dir / "result.json").read_text())
        return {name: value for name, value in content.items() if name != "model_dir"}

    def weights(self) -> bytes:
        """The finished model's file."""
        return (self.run_dir / "model" / "model.safetensors").read_bytes()

    def losses(self) -> str:
        """The loss of every step."""
        return (self.run_dir / "losses.jsonl").read_text()


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for a condition, as long as the process lives and the deadline allows."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def wait_until_gone(pid: int) -> None:
    """Wait until a process runs no more; one whose parent is dead may stay in the table as a zombie."""
    deadline = time.monotonic() + DEADLINE_S
    while is_running(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
