"""How one rank ended, left for the verdict: torchrun's agent exits with 1 whatever a rank's code was."""

from __future__ import annotations

import traceback

from training.files import write_json
from training.world import World

TRACEBACK_LIMIT = 20_000  # characters


def write(world: World, exit_code: int, error: BaseException | None, step: int | None) -> None:
    """Write `outcome-rank<r>.json` into the launch folder."""
    report = None
    if error is not None:
        text = "".join(traceback.format_exception(error))
        report = {"type": type(error).__name__, "message": str(error), "traceback": text[-TRACEBACK_LIMIT:]}
    world.launch_dir.mkdir(parents=True, exist_ok=True)
    content = {"schema": 1, "rank": world.rank, "exit_code": int(exit_code), "error": report, "step": step}
    write_json(world.launch_dir / f"outcome-rank{world.rank}.json", content)
