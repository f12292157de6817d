"""Two nodes of one rank each, simulated on this machine: an agent, a rank and memory of its own each."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.training.torchrun import DEADLINE_S, is_running, wait_until_gone
from training.checkpoints.holder import ADDRESS
from training.spec_file import AnySpec

ROOT = Path(__file__).parents[3]


@dataclass
class Node:
    """A node; its memory is a folder that no other node has."""

    name: str
    run_dir: Path

    @property
    def memory(self) -> Path:
        """In place of the machine's shared memory."""
        return self.run_dir.parent / f"memory-of-{self.name}"

    def holder(self) -> int:
        """The process that holds checkpoints here."""
        (address,) = self.memory.glob(f"*/{ADDRESS}")
        return int(json.loads(address.read_text())["pid"])

    def lose(self) -> None:
        """End what is left here, as a power cut would."""
        pid = self.holder()
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)

    def has_holder(self) -> bool:
        """Whether one runs here."""
        return bool(list(self.memory.glob(f"*/{ADDRESS}"))) and is_running(self.holder())


def launch(number: int, nodes: tuple[Node, Node], spec: AnySpec, **extra: str) -> list[str]:
    """Run an attempt over both nodes to its end; returns what their agents wrote."""
    run_dir = nodes[0].run_dir
    run_dir.mkdir(exist_ok=True)
    (run_dir / "run_spec.json").write_text(spec.to_json())
    launch_dir = run_dir / f"launch-{number}"
    launch_dir.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents = []
    for rank, node in enumerate(nodes):
        node.memory.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(node.memory),
            "PHALANX_ATTEMPT": str(number),
            "PHALANX_RUN_DIR": str(run_dir),
            "PHALANX_LAUNCH_DIR": str(launch_dir),
        }
        options = ["--max-restarts=0", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}"]
        options += ["--master-addr=127.0.0.1", f"--master-port={port}"]
        command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "training.train"]
        agents.append(
            subprocess.Popen(
                [*command, str(run_dir / "run_spec.json")],
                env=environment | extra,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
    try:
        return [agent.communicate(timeout=DEADLINE_S)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
