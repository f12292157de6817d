"""What the operator tests share."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

Eventually = Callable[..., None]


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Waits until a condition holds; fails with what was waited for when the deadline is over."""

    def wait(condition: Callable[[], object], what: str, within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not so within {within_s} s"
            time.sleep(0.02)

    return wait


@dataclass
class TaskInstanceStub:
    """What an operator asks of its task instance; a retry and a clear give it another id, a clear another max_tries."""

    dag_id: str = "nightly"
    run_id: str = "scheduled__2013-01-10T00:00:00+00:00"
    task_id: str = "task"
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 5
    id: UUID = field(default_factory=uuid4)

    def retried(self) -> TaskInstanceStub:
        return replace(self, id=uuid4(), try_number=self.try_number + 1)

    def cleared(self) -> TaskInstanceStub:
        return replace(self, id=uuid4(), try_number=self.try_number + 1, max_tries=self.try_number + 5)


@pytest.fixture
def ti() -> TaskInstanceStub:
    return TaskInstanceStub()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own."""
    for name in ("DATA_DIR", "RUNS_DIR", "MODELS_DIR", "REPORTS_DIR", "LEDGER_URL_FILE"):
        monkeypatch.delenv(f"PHALANX_{name}", raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("PHALANX_HOME", str(folder))
    return folder


@pytest.fixture
def a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Makes a module that jobs can run by its name; it gets `given`, the options of its command line."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    prelude = (
        "import json, sys\nfrom pathlib import Path\n"
        "given = {}\n"
        "for option, value in zip(sys.argv[1::2], sys.argv[2::2]):\n    given.setdefault(option, []).append(value)\n"
        "def answer(**result):\n    Path(given['--json-result'][0]).write_text(json.dumps(result))\n"
    )

    def make(name: str, source: str) -> str:
        (folder / f"{name}.py").write_text(prelude + textwrap.dedent(source))
        return name

    return make
