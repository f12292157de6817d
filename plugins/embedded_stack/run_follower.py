"""Triggers a DAG run and follows it to its end, one line for every change of a task's state."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from embedded_stack.airflow_api import AirflowApi, ApiRefused, ApiUnreachable, quoted
from embedded_stack.errors import StackError
from embedded_stack.gang_watch import GangWatch
from gang_controller.wiring import NotWired
from gang_ledgers.ledger import LedgerError

PARSE_LIMIT_S = 120.0
# How long the scheduler may take to start the run that is due when a DAG is switched on.
FIRST_SCHEDULED_LIMIT_S = 20.0
# Another file's import error is reported only if the DAG has not turned up this long after it.
IMPORT_ERROR_PATIENCE_S = 10.0
FINISHED = frozenset({"success", "failed"})
SHOWN_LOG_LINES = 25


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """How a run ended; `results` are the tasks' return values by task id, `reason` the failing task's."""

    dag_id: str
    run_id: str
    state: str
    link: str
    seconds: float
    results: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def is_success(self) -> bool:
        return self.state == "success"


@dataclass
class RunFollower:
    """Waits in whatever thread calls it; `stop` ends the waiting. `gangs` tells how those of deferred tasks get on."""

    api: AirflowApi
    say: Callable[[str], None]
    stop: threading.Event
    gangs: GangWatch | None = None
    _was_off: dict[str, bool] = field(default_factory=dict)

    def run(self, dag_id: str, conf: Mapping[str, Any], parsed_since: datetime) -> FollowedRun | None:
        """Trigger a run of a DAG that was parsed since then, and follow it; None if `stop` was set.

        Raises:
            StackError: there is no such DAG, it can't be imported, or it refuses the parameters.
        """
        if not self._wait_until_parsed(dag_id, parsed_since):
            return None
        path = f"/api/v2/dags/{quoted(dag_id)}"
        run_id = self._switch_on(path, is_default=not conf)
        verb = "was due and is followed"
        if not run_id:
            try:
                run = self.api.call("POST", f"{path}/dagRuns", {"logical_date": None, "conf": dict(conf)})
            except ApiRefused as refused:
                raise StackError(f"a run of {dag_id} was asked for, and refused: {refused}. Look at --conf.") from None
            run_id, verb = str(run["dag_run_id"]), "is triggered"
        link = f"{self.api.base_url}/dags/{quoted(dag_id)}/runs/{quoted(run_id)}"
        self.say(f"{dag_id}: run {run_id} {verb}, {link}")
        return self._follow(dag_id, run_id, link)

    def _switch_on(self, path: str, *, is_default: bool) -> str:
        """Unpause the DAG; the id of the run that Airflow then starts by schedule, if that is as good as one triggered.

        A DAG that is switched on runs at once for its last interval; triggering another run of it would train twice.
        """
        dag = self.api.call("PATCH", path, {"is_paused": False})
        was_off = self._was_off.get(str(dag["dag_id"]), False)
        if not (was_off and is_default and dag.get("timetable_summary")):
            return ""
        deadline_s = time.monotonic() + FIRST_SCHEDULED_LIMIT_S
        while time.monotonic() < deadline_s and not self.stop.wait(0.5):
            runs = self.api.call("GET", f"{path}/dagRuns?run_type=scheduled&order_by=-run_after&limit=1")["dag_runs"]
            if runs and runs[0]["state"] not in FINISHED:
                return str(runs[0]["dag_run_id"])
        return ""

    def _wait_until_parsed(self, dag_id: str, since: datetime) -> bool:
        started_s = time.monotonic()
        while not self.stop.wait(0.5):
            waited_s = time.monotonic() - started_s
            errors: list[dict[str, Any]] = []
            try:
                dag = self._dag(dag_id)
                if dag and dag["last_parsed_time"] and datetime.fromisoformat(dag["last_parsed_time"]) >= since:
                    if not dag["has_import_errors"]:
                        self._was_off[dag_id] = bool(dag["is_paused"])
                        return True
                    errors = self._import_errors(str(dag["relative_fileloc"] or ""))
                elif waited_s > IMPORT_ERROR_PATIENCE_S:
                    errors = self._import_errors("")
            except ApiUnreachable:
                continue
            if errors:
                found = "\n".join(f"{error['filename']}:\n{error['stack_trace'].strip()}" for error in errors)
                raise StackError(f"a run of {dag_id} was asked for, but it can't be imported:\n{found}")
            if waited_s > PARSE_LIMIT_S:
                known = ", ".join(d["dag_id"] for d in self.api.call("GET", "/api/v2/dags?limit=50")["dags"]) or "none"
                raise StackError(
                    f"a run of {dag_id} was asked for, but no such DAG has been parsed in {PARSE_LIMIT_S:.0f} s. "
                    f"Known DAGs: {known}."
                )
        return False

    def _dag(self, dag_id: str) -> dict[str, Any] | None:
        try:
            found = self.api.call("GET", f"/api/v2/dags/{quoted(dag_id)}")
        except ApiRefused as refused:
            if refused.status == 404:
                return None
            raise
        return dict(found)

    def _import_errors(self, filename: str) -> list[dict[str, Any]]:
        errors = self.api.call("GET", "/api/v2/importErrors?limit=20")["import_errors"]
        return [error for error in errors if filename in str(error["filename"])]

    def _follow(self, dag_id: str, run_id: str, link: str) -> FollowedRun | None:
        started_s = time.monotonic()
        path = f"/api/v2/dags/{quoted(dag_id)}/dagRuns/{quoted(run_id)}"
        seen: dict[tuple[str, int], str] = {}
        while True:
            try:
                state = str(self.api.call("GET", path)["state"])
                tasks = self.api.call("GET", f"{path}/taskInstances?limit=100")["task_instances"]
            except ApiUnreachable:  # it is being restarted
                state, tasks = "", []
            seconds = time.monotonic() - started_s
            for task in sorted(tasks, key=lambda task: str(task["start_date"] or "9")):
                self._tell_change(task, seen, seconds)
            self._tell_gangs(f"{dag_id}/{run_id}", tasks, seconds)
            if state in FINISHED:
                failed = [task for task in tasks if task["state"] == "failed"]
                results = {task["task_id"]: self._result(path, task) for task in tasks if task["state"] == "success"}
                reason = "" if state == "success" else self._reason(path, failed)
                return FollowedRun(dag_id, run_id, state, link, seconds, results, reason)
            if self.stop.wait(1.0):
                return None

    def _tell_change(self, task: Mapping[str, Any], seen: dict[tuple[str, int], str], seconds: float) -> None:
        key = (str(task["task_id"]), int(task["map_index"]))
        state = str(task["state"] or "none")
        tries = f", try {task['try_number']}" if task["try_number"] > 1 else ""
        if seen.get(key) != state + tries and state != "none":
            seen[key] = state + tries
            name = key[0] if key[1] < 0 else f"{key[0]}[{key[1]}]"
            took = f" after {task['duration']:.1f} s" if task["duration"] and state in FINISHED else ""
            self.say(f"  {seconds:6.1f} s  {name}: {state}{took}{tries}")

    def _tell_gangs(self, run: str, tasks: Sequence[Mapping[str, Any]], seconds: float) -> None:
        """Tell how the gangs get on that deferred tasks wait for; a ledger that can't be asked is asked again later."""
        if self.gangs is None:
            return
        ids = [_gang_id(run, task) for task in tasks if task["state"] == "deferred"]
        try:
            for gang_id, line in self.gangs.lines(ids, time.monotonic()):
                self.say(f"  {seconds:6.1f} s  {gang_id.removeprefix(run + '/')}: {line}")
        except (LedgerError, NotWired, SQLAlchemyError):
            return

    def _result(self, path: str, task: Mapping[str, Any]) -> Any:
        entry = f"{path}/taskInstances/{quoted(str(task['task_id']))}/xcomEntries/return_value"
        try:
            value = self.api.call("GET", f"{entry}?map_index={task['map_index']}&stringify=false")["value"]
        except (ApiRefused, ApiUnreachable):
            return None
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            return value

    def _reason(self, path: str, failed: list[dict[str, Any]]) -> str:
        if not failed:
            return "no task failed by itself; look at the run's page"
        task = min(failed, key=lambda task: str(task["end_date"]))
        where = f"task {task['task_id']} failed on try {task['try_number']}"
        log = f"{path}/taskInstances/{quoted(str(task['task_id']))}/logs/{task['try_number']}"
        try:
            events = self.api.call("GET", f"{log}?full_content=true&map_index={task['map_index']}")["content"]
        except (ApiRefused, ApiUnreachable) as error:
            return f"{where}; its log could not be read ({error})"
        lines = [line for event in events for line in _lines_of(event)]
        return f"{where}:\n" + "\n".join(lines[-SHOWN_LOG_LINES:])


def _gang_id(run: str, task: Mapping[str, Any]) -> str:
    """The id of the gang that a task asks for, if it asks for one (docs/contracts.md, "Training process")."""
    mapped = f"/{task['map_index']}" if task["map_index"] >= 0 else ""
    return f"{run}/{task['task_id']}{mapped}"


def _lines_of(event: Any) -> list[str]:
    """An event of a task's log as lines: its message and, where it carries one, its exception."""
    if isinstance(event, str):
        return event.splitlines()
    lines = str(event.get("event", "")).splitlines()
    for error in event.get("error_detail") or ():
        lines.append(f"{error.get('exc_type')}: {error.get('exc_value')}")
    return lines


def read_metrics(results: Mapping[str, Any]) -> dict[str, Any]:
    """What the run's tasks returned about a model: every result that is an object and names one."""
    found: dict[str, Any] = {}
    for result in results.values():
        if isinstance(result, Mapping) and ("model_id" in result or "metrics" in result):
            found.update({key: value for key, value in result.items() if not isinstance(value, Mapping | list)})
            if isinstance(result.get("metrics"), Mapping):
                found.update(result["metrics"])
    return found


def conf_of(text: str) -> dict[str, Any]:
    """The parameters in --conf: a JSON object, or `@FILE` that holds one.

    Raises:
        StackError: it is neither.
    """
    if not text:
        return {}
    try:
        conf = json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise StackError(f"--conf takes a JSON object or @FILE; {text!r} is neither: {error}") from None
    if not isinstance(conf, dict):
        raise StackError(f"--conf takes a JSON object; {text!r} holds a {type(conf).__name__}")
    return conf
