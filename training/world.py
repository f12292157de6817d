"""Where this process stands: the one place that reads the environment of torchrun and of the training contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from training.exit_codes import BadSpec


@dataclass(frozen=True, slots=True)
class World:
    """One rank's place in its gang.

    `launch` is the ledger's number of this launch; the attempt is counted apart, by claims in the run folder.
    `resume_from` is the folder of an earlier submission whose checkpoints may be resumed.
    """

    rank: int
    local_rank: int
    world_size: int
    gang_id: str
    submission: int
    launch: int
    run_dir: Path
    launch_dir: Path
    resume_from: Path | None
    is_under_torchrun: bool

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes for all."""
        return self.rank == 0

    @classmethod
    def from_env(cls, env: Mapping[str, str], spec_path: Path) -> Self:
        """The place that the environment describes; without a gang, a run folder beside the run spec, and one rank.

        Raises:
            BadSpec: a variable holds something that can't be.
        """
        run_dir = Path(env.get("PHALANX_RUN_DIR") or spec_path.resolve().parent)
        launch = _count(env, "PHALANX_ATTEMPT", 1)
        launch_dir = env.get("PHALANX_LAUNCH_DIR")
        resume_from = env.get("PHALANX_RESUME_FROM")
        return cls(
            rank=_count(env, "RANK", 0),
            local_rank=_count(env, "LOCAL_RANK", 0),
            world_size=_count(env, "WORLD_SIZE", 1),
            gang_id=env.get("PHALANX_GANG_ID", ""),
            submission=_count(env, "PHALANX_SUBMISSION", 1),
            launch=launch,
            run_dir=run_dir,
            launch_dir=Path(launch_dir) if launch_dir else run_dir / f"launch-{launch}",
            resume_from=Path(resume_from) if resume_from else None,
            is_under_torchrun="MASTER_ADDR" in env,
        )


def _count(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name) or str(default)
    if not text.isdecimal():
        raise BadSpec(
            f"environment: {name} = {text!r} is not a number from 0. The launcher sets it; see docs/contracts.md."
        )
    return int(text)
