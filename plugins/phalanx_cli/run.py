"""`phalanx run`: a training run from its run spec, on this machine and with no Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import psutil
import typer

from phalanx_cli.output import Json, fail, print_facts, print_json, say
from training.exit_codes import BadSpec, ExitCode
from training.spec_file import load

RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", help="Where checkpoints and the model go; default: beside the run spec, by its digest."),
]
MEANINGS = {
    ExitCode.BAD_SPEC: "the run spec asks for what can't be",
    ExitCode.BAD_DATA: "the data is not what the run spec says",
    ExitCode.PROGRAM_ERROR: "the program failed",
    ExitCode.INTERRUPTED: "stopped on request; its checkpoint is committed. Run it again to go on",
}


def run(
    run_spec: Annotated[Path, typer.Argument(help="A run spec (JSON): any run folder of a gang holds one.")],
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Train what a run spec says; run it again to go on where it stopped. Ctrl-C stops it with a checkpoint."""
    try:
        spec = load(run_spec)
    except BadSpec as error:
        fail(error, as_json, ExitCode.BAD_SPEC)
    folder = (run_dir or run_spec.resolve().parent / f"run-{spec.digest()[:12]}").resolve()
    launch = 1 + sum(1 for _ in folder.glob("launch-*"))
    launch_dir = folder / f"launch-{launch}"
    launch_dir.mkdir(parents=True)
    if not as_json:
        say(f"{spec.recipe}: {spec.workers} workers, run folder {folder}")
    code = _train(run_spec.resolve(), spec.workers, folder, launch, quietly=as_json)
    result = folder / "result.json"
    outcome = json.loads(result.read_bytes()) if code == 0 and result.exists() else None
    if as_json:
        print_json({"exit_code": code, "run_dir": folder, "result": outcome})
    elif outcome is not None:
        print_facts({"model": outcome["model_dir"], "digest": outcome["model_digest"], "loss": outcome["final_loss"]})
    else:
        said = MEANINGS.get(code, f"exit code {code}")  # type: ignore[call-overload]  # any int may be looked up
        say(f"{said}; what each rank said of its end lies in {launch_dir}")
    raise typer.Exit(code)


def _train(run_spec: Path, workers: int, folder: Path, launch: int, *, quietly: bool) -> int:
    """Run the ranks to their end; returns the exit code of the first that failed."""
    program = ["-m", "training.train", str(run_spec)]
    if workers > 1:
        options = ["--standalone", "--nnodes=1", f"--nproc-per-node={workers}", "--max-restarts=0"]
        program = ["-m", "torch.distributed.run", *options, *program]
    launch_dir = folder / f"launch-{launch}"
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PHALANX_ATTEMPT": str(launch),
        "PHALANX_LAUNCH_DIR": str(launch_dir),
        "PHALANX_RUN_DIR": str(folder),
    }
    # A session of its own: Ctrl-C reaches only this process, which asks the ranks to stop with a checkpoint.
    process = subprocess.Popen(
        [sys.executable, *program],
        env=environment,
        start_new_session=True,
        stdout=sys.stderr if quietly else None,
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        _ask_to_stop(process.pid)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if workers == 1 else _first_failure(launch_dir, workers, code)


def _ask_to_stop(pid: int) -> None:
    """Send SIGTERM to the ranks; told itself, the torchrun agent would kill them before they have saved."""
    try:
        agent = psutil.Process(pid)
        for rank in agent.children() or [agent]:
            rank.terminate()
    except psutil.NoSuchProcess:
        pass  # it has just ended


def _first_failure(launch_dir: Path, workers: int, agent_code: int) -> int:
    """The worst thing that a rank says of itself; the agent knows only that one failed."""
    codes = []
    for rank in range(workers):
        outcome = launch_dir / f"outcome-rank{rank}.json"
        codes.append(json.loads(outcome.read_bytes())["exit_code"] if outcome.exists() else None)
    said = [code for code in codes if code]
    own = [code for code in said if code != ExitCode.PROGRAM_ERROR]
    return agent_code and next(iter(own or said), agent_code)
