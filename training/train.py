"""`python -m torch.distributed.run ... -m training.train RUN_SPEC`: one rank, from its start to its exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from training import outcome, spec_file
from training.exit_codes import BadSpec, ExitCode, TrainingEnd
from training.fault_injection import FaultInjection
from training.parent import die_with_parent
from training.stop_request import StopRequest
from training.world import World

if TYPE_CHECKING:
    from training.loop import Run


def main(arguments: list[str]) -> int:
    """Train what the run spec says; returns the exit code, after leaving an outcome file that explains it."""
    die_with_parent()
    stop = StopRequest()
    stop.listen()
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m training.train RUN_SPEC.json\n")
        return ExitCode.BAD_SPEC
    path = Path(arguments[0])
    try:
        world = World.from_env(os.environ, path)
    except BadSpec as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    run: Run | None = None
    end: BaseException | None = None
    code = ExitCode.DONE
    try:
        spec = spec_file.load(path)
        fault = FaultInjection.from_env(os.environ)
        # DDP would warn that it looks for unused parameters in vain; collectives.py says why it looks.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        from training.loop import Run  # only here: torch takes seconds, and a bad run spec is told of before

        run = Run(world, spec, stop, fault)
        run.go()
    except TrainingEnd as error:
        code, end = error.exit_code, error
        sys.stderr.write(f"rank {world.rank}: {error}\n")
    except Exception as error:  # noqa: BLE001 - whatever it is, its outcome file tells
        code, end = ExitCode.PROGRAM_ERROR, error
        sys.excepthook(type(error), error, error.__traceback__)
    outcome.write(world, code, end, run.step if run else None)
    return code


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # gloo's threads may still wait for a rank that is gone; nothing here is left to tidy up
