"""Time to the first step, and to the next new one after a rank was killed: forked ranks beside plain torchrun.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/attempt_start.py [PAIRS]

The flights recipe on two ranks. Each pair measures in turn, on the same run spec:
- *forked*: the local backend with a warm parent that is up already (what its own start takes is told apart);
- *plain*: the local backend without; supervisor, torchrun, ranks;
- *torchrun*: torchrun alone with `--max-restarts=3`, which restarts the ranks by itself when one is killed.

A start is from the call to the first step's loss on disk. A recovery is from SIGKILL of rank 1 to the first loss of a
step beyond all that were made before; the backend's next attempt is launched as soon as it says that the last one is
dead. What the scheduler and its ticks add to that is not in here.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.trace_files import machine
from gang_backends.backend import LaunchOrder, Liveness
from gang_backends.local_process import LocalProcessBackend, WarmStart, proc_table
from gang_backends.local_process.launch_folder import marks_of
from gang_scheduler.gang import AttemptKey, GangRequest, PlacedWorkers, Placement, WorkerGroup
from tests.training.day_partitions import a_spec, write_days

OPEN_LEDGER = "tests.gang_backends.file_ledger:open_ledger"
KILL_AT_STEP = 50
LIMIT_S = 60.0  # what has not come back by then counts as never


def last_step(run_dir: Path) -> int:
    """The last step whose loss is on disk."""
    try:
        lines = (run_dir / "losses.jsonl").read_text().splitlines()
        return int(json.loads(lines[-1])["step"]) if lines else 0
    except (FileNotFoundError, ValueError):
        return 0


def until(holds: Callable[[], bool], since: float) -> float:
    """Seconds from `since` until something holds; infinity if it never does."""
    while not holds():
        if time.monotonic() - since > LIMIT_S:
            return float("inf")
        time.sleep(0.01)
    return time.monotonic() - since


def backend_times(home: Path, spec_json: str, warm: WarmStart | None) -> tuple[float, float]:
    """Start and recovery through the local backend."""
    (home / "runs").mkdir(parents=True)
    backend = LocalProcessBackend(home / "runs", home / "ledger.url", OPEN_LEDGER, warm)
    run_dir = home / "runs" / "gang"
    request = GangRequest(
        gang_id="benchmark/run/train",
        dag_id="benchmark",
        gang_pool="local",
        worker_groups=(WorkerGroup("trainer", 2),),
        command=("-m", "training.train", "{run_spec}"),
        run_spec_json=spec_json,
        run_spec_digest="0",
    )
    placement = Placement("local", (PlacedWorkers("localhost", "trainer", 2),))
    keys = [AttemptKey(request.gang_id, 1, attempt) for attempt in (1, 2)]
    marks = [marks_of(key, run_dir) for key in keys]
    try:
        began = time.monotonic()
        ref = backend.launch(LaunchOrder(keys[0], request, placement, str(run_dir)), {})
        start_s = until(lambda: last_step(run_dir) >= 1, began)
        until(lambda: last_step(run_dir) >= KILL_AT_STEP, began)
        (victim,) = (process.pid for process in proc_table.find(marks[0]) if process.rank == 1)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: backend.state(ref, str(run_dir), keys[0]).liveness is Liveness.DEAD, killed)
        reached = last_step(run_dir)
        backend.launch(LaunchOrder(keys[1], request, placement, str(run_dir)), {})
        return start_s, until(lambda: last_step(run_dir) > reached, killed)
    finally:
        for each in marks:
            proc_table.kill_all(each)


def torchrun_times(home: Path, spec_json: str) -> tuple[float, float]:
    """Start and recovery with torchrun alone; a recovery that never came is infinite."""
    run_dir = home / "gang"
    run_dir.mkdir(parents=True)
    (run_dir / "run_spec.json").write_text(spec_json)
    marks = {"PHALANX_RUN_DIR": str(run_dir)}
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.environ["PYTHONPATH"],
        "OMP_NUM_THREADS": "1",
    }
    began = time.monotonic()
    with (home / "log").open("ab") as log:
        agent = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--max-restarts=3", "--nproc-per-node=2",
             "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
             "-m", "training.train", str(run_dir / "run_spec.json")],
            env=environment | marks, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        start_s = until(lambda: last_step(run_dir) >= 1, began)
        until(lambda: last_step(run_dir) >= KILL_AT_STEP, began)
        (victim,) = (process.pid for process in proc_table.find(marks) if process.rank == 1)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: all(process.pid != victim for process in proc_table.find(marks)), killed)
        reached = last_step(run_dir)
        return start_s, until(lambda: last_step(run_dir) > reached, killed)
    finally:
        proc_table.kill_all(marks)
        agent.wait()


@contextmanager
def warm_parent(home: Path, spec_json: str) -> Iterator[tuple[WarmStart, float]]:
    """A warm parent that is up, and how long a first attempt took that had to wait for it."""
    warm = WarmStart(home / "warm", 600.0)
    start_s, _ = backend_times(home / "first", spec_json, warm)
    try:
        yield warm, start_s
    finally:
        proc_table.kill_all({"PHALANX_WARM_PARENT": str(warm.folder)})


def line(name: str, values: list[float]) -> str:
    """Median, least and most."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{name:<22} median {middle:6.2f} s   {least:6.2f} to {most:6.2f}   n={len(values)}"


def main(pairs: int) -> None:
    """Print the table."""
    print(machine(), flush=True)
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        spec = a_spec(write_days(home / "data", 4), workers=2, checkpoint_every_steps=20)
        spec_json = json.dumps(json.loads(spec.to_json()) | {"params": {**spec.params.model_dump(), "epochs": 1000}})
        with warm_parent(home, spec_json) as (warm, first_s):
            print(f"first attempt of all, which starts the warm parent and waits for it: {first_s:.2f} s", flush=True)
            kinds: dict[str, Callable[[Path], tuple[float, float]]] = {
                "forked": lambda at: backend_times(at, spec_json, warm),
                "plain": lambda at: backend_times(at, spec_json, None),
                "torchrun": lambda at: torchrun_times(at, spec_json),
            }
            found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
            for pair in range(pairs):
                for kind, measure in kinds.items():
                    found[kind].append(measure(home / f"{kind}-{pair}"))
                    print(kind, *(f"{value:.2f}" for value in found[kind][-1]), flush=True)
        for kind, values in found.items():
            print(line(f"start, {kind}", [start for start, _ in values]))
        for kind, values in found.items():
            print(line(f"recovery, {kind}", [recovery for _, recovery in values]))
        print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
