"""Runs the loop in this process, as a gang of one: what torchrun costs in seconds, this does in a fraction of one."""

from __future__ import annotations

from pathlib import Path

from training import spec_file
from training.fault_injection import FaultInjection
from training.loop import Run
from training.spec_file import AnySpec
from training.stop_request import StopRequest
from training.world import World


def run_alone(
    run_dir: Path,
    spec: AnySpec,
    *,
    stop: StopRequest | None = None,
    fault: FaultInjection | None = None,
    resume_from: Path | None = None,
) -> Run:
    """One attempt at the spec in the run folder."""
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "run_spec.json"
    path.write_text(spec.to_json())
    env = {"PHALANX_RESUME_FROM": str(resume_from)} if resume_from else {}
    run = Run(World.from_env(env, path), spec_file.load(path), stop or StopRequest(), fault)
    run.go()
    return run
