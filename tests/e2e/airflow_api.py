"""A small client of Airflow's REST API v2, with waits that have a deadline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import embedded_stack.airflow_api

T = TypeVar("T")
FINISHED = frozenset({"success", "failed"})


class StillWaiting(AssertionError):
    """A condition did not come true in time; the message holds what was seen last."""


def wait_for(condition: Callable[[], T | None], what: str, within_s: float, every_s: float = 0.5) -> T:
    """Return the first truthy value of `condition`; StillWaiting after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise StillWaiting(f"{what}: not so within {within_s:.0f} s; last seen: {seen!r}")
        time.sleep(every_s)


class AirflowApi(embedded_stack.airflow_api.AirflowApi):
    """One user's session, with the calls that people make in the UI."""

    def dags(self) -> list[dict[str, Any]]:
        """All DAGs that the DAG processor has found."""
        return list(self.call("GET", "/api/v2/dags?limit=100")["dags"])

    def trigger(self, dag_id: str, logical_date: str | None = None, **conf: Any) -> str:
        """Trigger a run and return its run id."""
        body = {"logical_date": logical_date, "conf": conf}
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The state of a DAG run."""
        return str(self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The task instances of a run by task id."""
        answer = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return {task["task_id"]: task for task in answer["task_instances"]}

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The state of one task instance ("" if it has none yet)."""
        return str(self.tasks(dag_id, run_id)[task_id]["state"] or "")

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The log of one try as plain text."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}?full_content=true"
        events = self.call("GET", path)["content"]
        return "\n".join(e if isinstance(e, str) else str(e.get("event", e)) for e in events)

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """The return value of a task."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        value = self.call("GET", path + "?deserialize=false&stringify=false")["value"]
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value

    def clear(self, dag_id: str, run_id: str, task_ids: list[str], *, downstream: bool = False) -> None:
        """Clear task instances of a run, whatever their state, as the UI's button does."""
        body = {
            "dry_run": False,
            "only_failed": False,
            "reset_dag_runs": True,
            "task_ids": task_ids,
            "dag_run_id": run_id,
            "include_downstream": downstream,
        }
        self.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def mark(self, dag_id: str, run_id: str, task_id: str, new_state: str) -> None:
        """Mark a task instance as failed or successful."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        self.call("PATCH", path, {"new_state": new_state})

    def backfill(self, dag_id: str, first: str, last: str, **options: Any) -> int:
        """Create a backfill over logical dates `first`..`last` and return its id."""
        body = {"dag_id": dag_id, "from_date": first, "to_date": last, **options}
        return int(self.call("POST", "/api/v2/backfills", body)["id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs of a DAG, newest first."""
        answer = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=200&order_by=-run_after")
        return list(answer["dag_runs"])

    def wait_run(self, dag_id: str, run_id: str, within_s: float, expect: str = "success") -> None:
        """Wait until a run has finished; fail with the failing task's log if its state is not the expected one."""
        state = wait_for(
            lambda: s if (s := self.run_state(dag_id, run_id)) in FINISHED else None,
            f"run {run_id} of {dag_id} finishes",
            within_s,
            every_s=1.0,
        )
        if state != expect:
            states = {name: (t["state"], t["try_number"]) for name, t in self.tasks(dag_id, run_id).items()}
            logs = [
                self.log(dag_id, run_id, name, tries)[-3000:]
                for name, (task_state, tries) in states.items()
                if task_state == "failed"
            ]
            raise AssertionError(f"run {run_id} ended {state}, not {expect}: {states}\n" + "\n".join(logs))
