"""Programs on Accelerate and on Lightning follow the run contract, when they are asked to stop and when killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.training.torchrun import DEADLINE_S, wait_until
from training.exit_codes import ExitCode

pytestmark = pytest.mark.slow

PROGRAMS = ["accelerate", "lightning"]
STEPS = 400


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both libraries; what this one has already is seen through a path entry, torch above all."""
    folder = tmp_path_factory.mktemp("third-party") / "venv"
    venv.create(folder, with_pip=False)
    (site_packages,) = (folder / "lib").glob("python*/site-packages")
    beside = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site_packages / "dependencies.pth").write_text("\n".join(beside))
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PROGRAMS], check=True, timeout=600)
    return python


class Attempts:
    """The attempts at one run of a program."""

    def __init__(self, python: Path, program: Path, run_dir: Path) -> None:
        self.python, self.program, self.run_dir, self.count = python, program, run_dir, 0
        run_dir.mkdir()
        spec = {"steps": STEPS, "checkpoint_every_steps": 10, "seed": 0}
        (run_dir / "run_spec.json").write_text(json.dumps(spec))

    def start(self) -> subprocess.Popen[str]:
        self.count += 1
        launch_dir = self.run_dir / f"launch-{self.count}"
        launch_dir.mkdir()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.run_dir),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "OMP_NUM_THREADS": "1",
            "PHALANX_ATTEMPT": str(self.count),
            "PHALANX_RUN_DIR": str(self.run_dir),
            "PHALANX_LAUNCH_DIR": str(launch_dir),
        }
        torchrun = ["-m", "torch.distributed.run", "--max-restarts=0", "--standalone", "--nproc-per-node=2"]
        return subprocess.Popen(
            [self.python, *torchrun, str(self.program), str(self.run_dir / "run_spec.json")],
            env=environment,
            cwd=self.run_dir,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(self, process: subprocess.Popen[str]) -> str:
        try:
            return process.communicate(timeout=DEADLINE_S)[0]
        finally:
            process.kill()

    def has_committed(self, step: int) -> bool:
        try:
            heartbeat: dict[str, Any] = json.loads((self.run_dir / "heartbeat.json").read_text())
        except FileNotFoundError:
            return False
        return heartbeat["attempt"] == self.count and (heartbeat["last_committed_step"] or 0) >= step

    def exit_codes(self) -> list[int | None]:
        found: list[int | None] = []
        for rank in range(2):
            path = self.run_dir / f"launch-{self.count}" / f"outcome-rank{rank}.json"
            found.append(json.loads(path.read_text())["exit_code"] if path.exists() else None)
        return found

    def final_loss(self) -> float:
        result: dict[str, Any] = json.loads((self.run_dir / "result.json").read_text())
        assert result["steps"] == STEPS
        return float(result["final_loss"])


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, repository: Path) -> Path:
    return repository / "docs" / "examples" / "third_party" / f"{request.param}_program.py"


@pytest.fixture
def undisturbed_loss(python: Path, program: Path, tmp_path: Path) -> float:
    attempts = Attempts(python, program, tmp_path / "undisturbed")
    said = attempts.finish(attempts.start())
    assert attempts.exit_codes() == [ExitCode.DONE, ExitCode.DONE], said
    return attempts.final_loss()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, ExitCode.INTERRUPTED), (signal.SIGKILL, None)])
def test_program_goes_on_from_its_checkpoint_when_it_was_stopped_or_killed(
    number: signal.Signals, code: ExitCode | None, python: Path, program: Path, undisturbed_loss: float, tmp_path: Path
) -> None:
    attempts = Attempts(python, program, tmp_path / "disturbed")
    process = attempts.start()
    wait_until(lambda: attempts.has_committed(20), process)
    claim = json.loads((attempts.run_dir / "attempts" / "1").read_text())
    os.kill(claim["pid"] if code is None else process.pid, number)
    said = attempts.finish(process)
    assert attempts.exit_codes()[0] == code, said
    assert not (attempts.run_dir / "result.json").exists(), "it was not so quick"
    said = attempts.finish(attempts.start())
    assert attempts.exit_codes() == [ExitCode.DONE, ExitCode.DONE], said
    assert "resumed from step" in said
    assert attempts.final_loss() == undisturbed_loss
