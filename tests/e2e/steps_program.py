"""A small program that follows the training-process contract: it counts steps, and each step depends on all before it.

Run by torchrun like any other: `steps_program.py RUN_SPEC`, with {"steps": n, "step_s": s, "fail_at": k} in the spec.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

from training import attempts, checkpoint_manifest, heartbeat
from training.exit_codes import ExitCode, Interrupted, TrainingEnd
from training.files import write_json
from training.world import World

CHECKPOINT_EVERY_STEPS = 10
is_asked_to_stop = False


def ask_to_stop(*_: object) -> None:
    """Note the SIGTERM; the loop stops at the next step."""
    global is_asked_to_stop
    is_asked_to_stop = True


def save(world: World, claim: attempts.Claim, step: int, value: str) -> None:
    """Commit a checkpoint of this step."""
    folder = checkpoint_manifest.folder_of(world.run_dir, step)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"step": step, "value": value}))
    content = checkpoint_manifest.Commit(
        step=step,
        samples=step,
        world_size=world.world_size,
        layout="steps",
        files=(checkpoint_manifest.describe_file(folder, "state.json"),),
        reader_state={},
        gang_id=world.gang_id,
        submission=world.submission,
        attempt=claim.attempt,
        created_at=datetime.now(UTC).isoformat(),
    )
    checkpoint_manifest.commit(claim, folder, content)


def run(world: World, spec: dict[str, str]) -> None:
    """Count from the newest checkpoint to the end."""
    steps, step_s, fail_at = int(spec["steps"]), float(spec["step_s"]), int(spec["fail_at"])
    claim = attempts.claim(world.run_dir, world.launch) if world.is_first else None
    folders = [world.run_dir, *([world.resume_from] if world.resume_from else [])]
    found = checkpoint_manifest.find(folders)
    step, value = 0, "start"
    if found is not None:
        state = json.loads((found.folder / "state.json").read_text())
        step, value = state["step"], state["value"]
        if world.is_first:
            print(f"resumed from step {step} of attempt {found.commit.attempt}", flush=True)  # noqa: T201 - what a program prints is its log
    saved = step
    while step < steps:
        time.sleep(step_s)
        step += 1
        value = hashlib.sha256(f"{value}{step}".encode()).hexdigest()
        if 0 <= fail_at <= step and world.rank == 1:  # rank 0 may have saved a step beyond it
            raise ValueError(f"the program was told to fail at step {step}")
        if claim is not None:
            if step % CHECKPOINT_EVERY_STEPS == 0 or is_asked_to_stop or step == steps:
                save(world, claim, step, value)
                saved = step
            now = datetime.now(UTC).isoformat()
            eta_s = (steps - step) * step_s
            heartbeat.write(
                world.run_dir,
                heartbeat.Heartbeat(
                    step,
                    steps,
                    step,
                    1 / step,
                    1 / step_s,
                    eta_s,
                    saved,
                    now,
                    claim.attempt,
                    world.launch,
                    now,
                    "training",
                ),
            )
            print(f"step {step}/{steps} loss {1 / step:.4f} value {value[:8]}", flush=True)  # noqa: T201 - what a program prints is its log
        if is_asked_to_stop and step < steps:
            raise Interrupted(f"stopped at step {step}")
    if claim is not None:
        write_json(world.run_dir / "result.json", {"steps": steps, "value": value, "attempt": claim.attempt})


def main() -> int:
    """Run, and say how it ended in this rank's outcome file."""
    signal.signal(signal.SIGTERM, ask_to_stop)
    spec_path = Path(sys.argv[1])
    world = World.from_env(os.environ, spec_path)
    code, error = ExitCode.DONE, None
    try:
        run(world, json.loads(spec_path.read_text()))
    except Exception as problem:  # noqa: BLE001 - whatever it was, the outcome file says so
        code = problem.exit_code if isinstance(problem, TrainingEnd) else ExitCode.PROGRAM_ERROR
        error = {"type": type(problem).__name__, "message": str(problem), "traceback": traceback.format_exc()}
    world.launch_dir.mkdir(parents=True, exist_ok=True)
    outcome = {"exit_code": int(code), "error": error, "step": None}
    write_json(world.launch_dir / f"outcome-rank{world.rank}.json", outcome)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
