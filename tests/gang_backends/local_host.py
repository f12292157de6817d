"""One test's host: a backend over a throw-away runs folder, and a ledger whose answers the test decides."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gang_backends.backend import AttemptState, LaunchOrder, Liveness
from gang_backends.local_process import LocalProcessBackend, proc_table
from gang_backends.local_process.identity import from_ref
from gang_backends.local_process.launch_folder import launch_folder, marks_of
from gang_scheduler.gang import AttemptKey, GangRequest, PlacedWorkers, Placement, WorkerGroup
from tests.gang_backends.file_ledger import FileLedger

HERE = Path(__file__).parent
OPEN_LEDGER = "tests.gang_backends.file_ledger:open_ledger"
T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, within_s: float = 120.0) -> T:
    """The first truthy value of `condition`."""
    deadline = time.monotonic() + within_s
    while not (seen := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {within_s:.0f} s"
        time.sleep(0.02)
    return seen


@dataclass
class Host:
    """One test's host: backend, ledger, and the attempts launched here."""

    home: Path
    backend: LocalProcessBackend
    ledger: FileLedger
    refs: dict[AttemptKey, str] = field(default_factory=dict)

    def run_dir(self, gang: str = "gang") -> Path:
        return self.home / "runs" / gang / "submission-1"

    def order(self, gang: str = "gang", attempt: int = 1, program: str = "rank_program.py", **spec: Any) -> LaunchOrder:
        request = GangRequest(
            gang_id=f"dag/run/{gang}",
            dag_id="dag",
            gang_pool="local",
            worker_groups=(WorkerGroup("trainer", 2),),
            command=(str(HERE / program), "{run_spec}"),
            run_spec_json=json.dumps(spec),
            run_spec_digest="0",
        )
        placement = Placement("local", (PlacedWorkers("localhost", "trainer", 2),))
        return LaunchOrder(AttemptKey(request.gang_id, 1, attempt), request, placement, str(self.run_dir(gang)))

    def launch(self, order: LaunchOrder) -> str:
        ref = self.backend.launch(order, {})
        self.refs[order.key] = ref
        return ref

    def launch_dir(self, order: LaunchOrder) -> Path:
        return launch_folder(Path(order.run_dir), order.key.attempt)

    def processes(self, order: LaunchOrder) -> list[proc_table.AttemptProcess]:
        return proc_table.find(marks_of(order.key, Path(order.run_dir)))

    def ranks(self, order: LaunchOrder) -> dict[int, int]:
        """Pid by rank."""
        return {p.rank: p.pid for p in self.processes(order) if p.rank is not None}

    def agent(self, order: LaunchOrder) -> int:
        return next(p.pid for p in self.processes(order) if p.rank is None)

    def wait_training(self, order: LaunchOrder, step: int = 3) -> None:
        def beat() -> bool:
            try:
                said = json.loads((Path(order.run_dir) / "heartbeat.json").read_text())
            except FileNotFoundError:
                return False
            return bool(said["launch"] == order.key.attempt and said["step"] >= step)

        wait_for(beat, f"{order.key} makes steps")

    def wait_end(self, within_s: float = 120.0) -> dict[str, Any]:
        """What the ledger was told of the (first) end."""
        return wait_for(lambda: self.ledger.calls("end"), "the ledger is told of the end", within_s)[0]

    def wait_dead(self, order: LaunchOrder) -> AttemptState:
        """What the backend says of the attempt once it says DEAD."""

        def dead() -> AttemptState | None:
            state = self.backend.state(self.refs.get(order.key, ""), order.run_dir, order.key)
            return state if state.liveness is Liveness.DEAD else None

        state = wait_for(dead, f"{order.key} is dead")
        assert state is not None
        return state

    def kill_supervisor(self, order: LaunchOrder) -> None:
        process = from_ref(self.refs[order.key])
        assert process is not None
        assert proc_table.send(process.pid, process.start_time, signal.SIGKILL)
