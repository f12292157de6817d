"""One embedded stack for all end-to-end tests: real PostgreSQL and Airflow, the project's DAGs and the ones here."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
sys.path.insert(0, str(HERE))  # the helpers beside here

from airflow_api import AirflowApi, wait_for  # noqa: E402

from embedded_stack.airflow_api import ApiRefused  # noqa: E402


@dataclass
class Stack:
    """The running stack."""

    home: Path
    api: AirflowApi

    def pid_of(self, part: str) -> int:
        """The process id of one of its parts."""
        parts = json.loads((self.home / "stack.json").read_text())["parts"]
        return int(next(found for found in parts if found["name"] == part)["process"]["pid"])

    def switch_on_nightly(self) -> None:
        """Unpause the nightly DAG, and end the run of the newest interval that Airflow then starts by itself."""
        path = "/api/v2/dags/nightly_retraining"
        if not self.api.call("GET", path)["is_paused"]:
            return
        self.api.call("PATCH", path, {"is_paused": False})
        due = wait_for(lambda: self.api.runs("nightly_retraining"), "the run that is due starts", 60)
        for run in due:
            wait_for(partial(self._ended, run["dag_run_id"]), "the run that was due is ended", 60)

    def _ended(self, run_id: str) -> bool:
        """Whether the run could be ended: Airflow refuses it while its scheduler is creating the run's tasks."""
        try:
            self.api.call("PATCH", f"/api/v2/dags/nightly_retraining/dagRuns/{run_id}", {"state": "failed"})
        except ApiRefused:
            return False
        return True


def phalanx(*arguments: str, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "phalanx_cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=CHECKOUT)


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack, brought up once; every DAG is parsed, and all but the nightly one are unpaused."""
    base = tmp_path_factory.mktemp("stack")
    dags = base / "dags"
    shutil.copytree(CHECKOUT / "dags", dags)
    for dag_file in (HERE / "dags").glob("*.py"):
        (dags / dag_file.name).symlink_to(dag_file)
    home, port = base / "home", free_port()
    up = phalanx("up", "--detach", "--home", str(home), "--port", str(port), "--dags", str(dags), "--json")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        password = json.loads((home / "airflow" / "passwords.json").read_text())["admin"]
        running = Stack(home, AirflowApi(f"http://127.0.0.1:{port}", "admin", password))
        wanted = {path.stem for path in dags.glob("*.py")} | {"held_training"}
        wait_for(lambda: wanted <= {d["dag_id"] for d in running.api.dags()}, f"DAGs {wanted} are parsed", 120)
        for dag_id in wanted - {"nightly_retraining"}:
            running.api.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        yield running
    finally:
        down = phalanx("down", "--home", str(home))
    assert down.returncode == 0, down.stdout + down.stderr
