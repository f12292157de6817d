"""The run contract (docs/contracts.md, "Training process") for a program that brings its own training loop.

It claims the run folder, finds the newest verified checkpoint, commits new ones, writes the heartbeat, hears SIGTERM,
and ends with the contract's exit code and an outcome file. The programs beside this file use it; it rests on the parts
of `training` that know nothing of models. A program in another language does the same with files and environment alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training import attempts, checkpoint_manifest, outcome
from training.checkpoint_manifest import Commit, Found
from training.exit_codes import ExitCode, Interrupted, TrainingEnd
from training.files import write_json
from training.parent import die_with_parent
from training.progress import Progress
from training.stop_request import StopRequest
from training.world import World

KEPT = 2  # checkpoints


class ContractedRun:
    """One attempt at a run, on one rank; whatever several ranks must agree on is the program's to agree on."""

    def __init__(self, spec_path: Path) -> None:
        """Listen for SIGTERM, read the run spec, and claim the run folder."""
        die_with_parent()
        self.stop = StopRequest()
        self.stop.listen()
        self.world = World.from_env(os.environ, spec_path)
        self.spec: dict[str, Any] = json.loads(spec_path.read_text())
        self.claim = attempts.claim(self.world.run_dir, self.world.launch) if self.world.is_first else None
        self.progress = Progress(self.world, self.claim, self.spec["steps"]) if self.claim is not None else None
        self.step = 0

    def newest_checkpoint(self) -> Found | None:
        """The newest checkpoint that verifies, of this run or of the earlier submission that may be resumed."""
        return checkpoint_manifest.find([self.world.run_dir, *filter(None, [self.world.resume_from])])

    def beat(self, step: int, samples: int, loss: float) -> None:
        """Say how far it is; every rank may call it at every step, the first writes when it is time."""
        self.step = step
        if self.progress is not None and (self.progress.is_due() or step == self.spec["steps"]):
            self.progress.beat("training", step, samples, loss)

    def folder_of(self, step: int) -> Path:
        """Where the files of a step's checkpoint go."""
        folder = checkpoint_manifest.folder_of(self.world.run_dir, step)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def commit(self, step: int, samples: int, *names: str) -> None:
        """Make the files of that step a checkpoint; when all ranks have written theirs, the first rank calls it.

        Raises:
            Superseded: a newer attempt has claimed the run folder.
        """
        assert self.claim is not None
        assert self.progress is not None
        folder = self.folder_of(step)
        content = Commit(
            step=step,
            samples=samples,
            world_size=self.world.world_size,
            layout="whole",
            files=tuple(checkpoint_manifest.describe_file(folder, name) for name in names),
            reader_state={"samples": samples},
            gang_id=self.world.gang_id,
            submission=self.world.submission,
            attempt=self.claim.attempt,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        checkpoint_manifest.commit(self.claim, folder, content)
        checkpoint_manifest.prune(self.world.run_dir, KEPT, step)
        self.progress.committed(step, content.created_at)

    def interrupted(self) -> Interrupted:
        """What to raise once the checkpoint is committed that SIGTERM asked for."""
        return Interrupted(f"stopped on request at step {self.step}; its checkpoint is committed")

    def done(self, samples: int, loss: float) -> None:
        """Leave the result."""
        if self.claim is not None and self.progress is not None:
            self.claim.check()
            write_json(self.world.run_dir / "result.json", {"schema": 1, "final_loss": loss, "steps": self.step})
            self.progress.beat("done", self.step, samples, loss)


def run(train: Callable[[ContractedRun], None]) -> None:
    """Train what the run spec named on the command line says, and end as the contract asks."""
    contracted = ContractedRun(Path(sys.argv[1]))
    code, end = ExitCode.DONE, None
    try:
        train(contracted)
    except TrainingEnd as error:
        code, end = error.exit_code, error
        sys.stderr.write(f"rank {contracted.world.rank}: {error}\n")
    except Exception as error:  # noqa: BLE001 - whatever it is, its outcome file tells
        code, end = ExitCode.PROGRAM_ERROR, error
        sys.excepthook(type(error), error, error.__traceback__)
    outcome.write(contracted.world, code, end, contracted.step)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
