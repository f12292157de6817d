"""Time from trigger to promotion for one day, split by stage and by what Airflow adds; cold and warm, in one run.

    .venv/bin/python benchmarks/nightly_stages.py [--home DIR] [--day 2013-11-30] [--warm-runs 3]

Cold: an empty state folder, so all 29 partitions are built. Warm: the day after each, so one partition is built.
Both on a stack that is up; the time to bring it up is printed apart. Everything it starts is taken down again.
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
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from embedded_stack.airflow_api import AirflowApi, ApiRefused

DAG_ID = "nightly_retraining"
STAGES = ("preprocess", "validate", "train", "evaluate", "promote")
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


def run_day(api: AirflowApi, day: date) -> dict[str, float]:
    """Run one day; seconds by stage, each from its start to its end in Airflow, and the rest as overhead."""
    logical = datetime.combine(day + timedelta(days=1), datetime.min.time()).isoformat() + "Z"
    body = {"logical_date": logical, "conf": {}}
    began_s = time.monotonic()
    run = api.call("POST", f"/api/v2/dags/{DAG_ID}/dagRuns", body)["dag_run_id"].replace("+", "%2B")
    while (state := api.call("GET", f"/api/v2/dags/{DAG_ID}/dagRuns/{run}")["state"]) not in ("success", "failed"):
        if time.monotonic() - began_s > LIMIT_S:
            sys.exit(f"{run} was {state} after {LIMIT_S:.0f} s")
        time.sleep(EVERY_S)
    total_s = time.monotonic() - began_s
    tasks = api.call("GET", f"/api/v2/dags/{DAG_ID}/dagRuns/{run}/taskInstances")["task_instances"]
    if state != "success":
        sys.exit(f"{run} failed: { {task['task_id']: task['state'] for task in tasks} }")
    spans = {task["task_id"]: _seconds(task) for task in tasks}
    return {**spans, "between tasks": total_s - sum(spans.values()), "total": total_s}


def _seconds(task: dict[str, Any]) -> float:
    start, end = (datetime.fromisoformat(task[name]) for name in ("start_date", "end_date"))
    return (end - start).total_seconds()


def main() -> None:
    """Print a table: a row per stage, a column per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--day", type=date.fromisoformat, default=date(2013, 11, 26))
    parser.add_argument("--warm-runs", type=int, default=3)
    asked = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as folder, stack(asked.home or Path(folder)) as api:
        wait_until_parsed(api)
        runs = {"cold": run_day(api, asked.day)}
        for number in range(1, asked.warm_runs + 1):
            runs[f"warm {number}"] = run_day(api, asked.day + timedelta(days=number))
    print("| seconds | " + " | ".join(runs) + " |")
    print("|---" * (len(runs) + 1) + "|")
    for row in (*STAGES, "between tasks", "total"):
        print(f"| {row} | " + " | ".join(f"{run[row]:.1f}" for run in runs.values()) + " |")


if __name__ == "__main__":
    main()
