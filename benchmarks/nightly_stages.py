"""Time from trigger to promotion for one day, by stage: Airflow's part and the stage's own work; cold and warm.

    .venv/bin/python benchmarks/nightly_stages.py [--home DIR] [--day 2013-11-24] [--warm-runs 5]

Cold: an empty state folder, so all 29 partitions are built. Warm: the days after, so one partition is built each.
Both on a stack that is up; the time to bring it up is printed apart. Everything it starts is taken down again.

A stage's time is cut where its task's log says that `execute` begins and returns, and where the gang
ledger says that the training had ended. The parts of all stages add up to the total.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from embedded_stack.airflow_api import AirflowApi, ApiRefused, quoted
from gang_controller.wiring import open_ledger

DAG_ID = "nightly_retraining"
RUNS = f"/api/v2/dags/{DAG_ID}/dagRuns"
STAGES = ("preprocess", "validate", "train", "evaluate", "promote")
BEFORE, AFTER = "::group::Pre Execute", "::group::Post Execute"
OWN = "own"
AIRFLOW_S = {
    "queue": "until a process of the task speaks (scheduling, queue, process start)",
    "start": "until `execute` begins (imports, the DAG file, the task's context)",
    "wake": "from the end of the gang until `resume` begins (trigger, queue, process, imports)",
    "finish": "from the return of `execute` until the task is finished",
}
EVERY_S = 0.5
LIMIT_S = 1800.0


def phalanx(*arguments: str) -> None:
    """Run the command line; its output is shown if it fails."""
    done = subprocess.run([sys.executable, "-m", "phalanx_cli.main", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


@contextmanager
def stack(home: Path) -> Iterator[AirflowApi]:
    """A stack on this home, taken down at the end."""
    began_s = time.monotonic()
    phalanx("up", "--detach", "--home", str(home), "--json")
    print(f"stack up, first start: {time.monotonic() - began_s:.1f} s")
    try:
        password = json.loads((home / "airflow" / "passwords.json").read_text())["admin"]
        yield AirflowApi(json.loads((home / "stack.json").read_text())["address"], "admin", password)
    finally:
        phalanx("down", "--home", str(home))


def wait_until_parsed(api: AirflowApi) -> None:
    """Wait for the DAG; switch it on, and end the run that it then starts by itself."""
    until_s = time.monotonic() + 120
    while not any(dag["dag_id"] == DAG_ID for dag in api.call("GET", "/api/v2/dags?limit=50")["dags"]):
        if time.monotonic() > until_s:
            sys.exit(f"{DAG_ID} was not parsed within 120 s")
        time.sleep(EVERY_S)
    api.call("PATCH", f"/api/v2/dags/{DAG_ID}", {"is_paused": False})
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        for run in api.call("GET", f"/api/v2/dags/{DAG_ID}/dagRuns?run_type=scheduled&limit=5")["dag_runs"]:
            with suppress(ApiRefused):  # the scheduler is creating its tasks; asked again
                api.call("PATCH", f"/api/v2/dags/{DAG_ID}/dagRuns/{run['dag_run_id']}", {"state": "failed"})
                until_s = 0
        time.sleep(EVERY_S)
    time.sleep(10)  # what the ended run had started has to end


@dataclass
class Process:
    """One process of a task, by its log: when it first spoke, when `execute` began and when it returned."""

    spoke: datetime
    began: datetime
    returned: datetime


def processes(events: list[Any]) -> Iterator[Process]:
    """The processes that ran a task: two, if it was deferred."""
    marks: list[datetime] = []
    for event in events:
        if isinstance(event, dict) and event.get("timestamp"):
            expected = (BEFORE, "::endgroup::", AFTER)[len(marks)]
            if event["event"] == expected:
                marks.append(datetime.fromisoformat(event["timestamp"]))
            if len(marks) == len(Process.__dataclass_fields__):
                yield Process(*marks)
                marks = []


def parts_of(stage: list[Process], asked: datetime, ended: datetime, gang_ended: datetime | None) -> dict[str, float]:
    """Seconds by part of a stage that could start at `asked` and was over at `ended`; they add up."""
    first, last = stage[0], stage[-1]
    if gang_ended is None:
        cuts = [asked, first.spoke, first.began, last.returned, ended]
        return dict(zip(("queue", "start", OWN, "finish"), map(_seconds, cuts, cuts[1:]), strict=True)) | {"wake": 0.0}
    cuts = [asked, first.spoke, first.began, gang_ended, last.began, last.returned, ended]
    queue, start, trained, wake, settled, finish = map(_seconds, cuts, cuts[1:])
    return {"queue": queue, "start": start, OWN: trained + settled, "wake": wake, "finish": finish}


def _seconds(begin: datetime, end: datetime) -> float:
    return (end - begin).total_seconds()


def run_day(api: AirflowApi, home: Path, day: date) -> dict[tuple[str, str], float]:
    """Run one day; seconds by stage and part, from the trigger to the end of the last task."""
    logical = datetime.combine(day + timedelta(days=1), datetime.min.time()).isoformat() + "Z"
    began_s, asked = time.monotonic(), datetime.now(UTC)
    name = api.call("POST", RUNS, {"logical_date": logical, "conf": {}})["dag_run_id"]
    run = f"{RUNS}/{quoted(name)}"
    while (state := api.call("GET", run)["state"]) not in ("success", "failed"):
        if time.monotonic() - began_s > LIMIT_S:
            sys.exit(f"{name} was {state} after {LIMIT_S:.0f} s")
        time.sleep(EVERY_S)
    tasks = {task["task_id"]: task for task in api.call("GET", f"{run}/taskInstances")["task_instances"]}
    if state != "success":
        sys.exit(f"{name} failed: { {name: task['state'] for name, task in tasks.items()} }")
    if tries := {name: task["try_number"] for name, task in tasks.items() if task["try_number"] > 1}:
        sys.exit(f"{name}: tasks were tried more than once: {tries}; the figures would say nothing")
    with closing(open_ledger(home)) as ledger:
        gang = ledger.state(f"{DAG_ID}/{name}/train")
    found: dict[tuple[str, str], float] = {}
    for stage in STAGES:
        events = api.call("GET", f"{run}/taskInstances/{stage}/logs/1?full_content=true")["content"]
        ended = datetime.fromisoformat(tasks[stage]["end_date"])
        gang_ended = gang.ended_at if gang and stage == "train" else None
        for part, seconds in parts_of(list(processes(events)), asked, ended, gang_ended).items():
            found[stage, part] = seconds
        asked = ended
    return found


def show(cold: dict[tuple[str, str], float], warm: list[dict[tuple[str, str], float]]) -> None:
    """Two tables: what each stage took, and where Airflow's part went."""
    airflow = [(stage, part) for stage in STAGES for part in AIRFLOW_S]
    rows = {f"{stage}, own work": [(stage, OWN)] for stage in STAGES}
    rows |= {f"{stage}, Airflow": [(stage, part) for part in AIRFLOW_S] for stage in STAGES}
    rows |= {"all own work": [(stage, OWN) for stage in STAGES], "all Airflow": airflow}
    rows["**total**"] = rows["all own work"] + rows["all Airflow"]
    print("\n| seconds | cold | warm, median | warm, least to most |\n|---|---|---|---|")
    for title, cells in rows.items():
        print(f"| {title} | {_sum(cold, cells):.1f} | {_spread(warm, cells)} |")
    print(
        f"\n| Airflow's part, seconds | cold | warm, median of {len(warm)} | warm, least to most |\n|---|---|---|---|"
    )
    for part, meaning in AIRFLOW_S.items():
        cells = [(stage, part) for stage in STAGES]
        print(f"| {meaning} | {_sum(cold, cells):.1f} | {_spread(warm, cells)} |")


def _sum(run: dict[tuple[str, str], float], cells: list[tuple[str, str]]) -> float:
    return sum(run[cell] for cell in cells)


def _spread(runs: list[dict[tuple[str, str], float]], cells: list[tuple[str, str]]) -> str:
    sums = [_sum(run, cells) for run in runs]
    return f"{median(sums):.1f} | {min(sums):.1f} to {max(sums):.1f}"


def main() -> None:
    """Run the days and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--day", type=date.fromisoformat, default=date(2013, 11, 24))
    parser.add_argument("--warm-runs", type=int, default=5)
    asked = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as folder:
        home = asked.home or Path(folder)
        with stack(home) as api:
            wait_until_parsed(api)
            cold = run_day(api, home, asked.day)
            warm = [run_day(api, home, asked.day + timedelta(days=n)) for n in range(1, asked.warm_runs + 1)]
    show(cold, warm)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
