"""The whole stack, once cold and once warm; the tests of this file build on each other, in their order."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from embedded_stack import ports
from embedded_stack.airflow_api import AirflowApi
from embedded_stack.airflow_settings import login
from embedded_stack.processes import ProcessIdentity
from tests.embedded_stack.phalanx import Phalanx, wait_until

pytestmark = pytest.mark.e2e

PARTS = {"postgres", "api-server", "scheduler", "dag-processor", "triggerer"}


@pytest.fixture(scope="module")
def first_up(phalanx: Phalanx) -> str:
    """What the first, cold `up --detach --run` says."""
    port = str(ports.a_free_port())
    done = phalanx(*phalanx.up("--detach", "--port", port, "--run", "tiny", "--conf", '{"number": 42}'))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_taken_port_is_a_clear_error_before_anything_starts(phalanx: Phalanx) -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        done = phalanx(*phalanx.up("--port", str(port)))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}, but the port is taken by pid {os.getpid()}" in done.stderr
    assert "--port" in done.stderr
    assert phalanx.alive() == []


def test_up_shows_the_login_and_the_run_it_followed(phalanx: Phalanx, first_up: str) -> None:
    _, password = login(phalanx.folder)
    assert password in first_up
    assert "answer: success" in first_up
    assert "auc       0.7500" in first_up
    assert "model_id  42" in first_up


def test_status_shows_every_part_healthy_when_up_returned(phalanx: Phalanx, first_up: str) -> None:
    status = phalanx.status()
    assert status["state"] == "up"
    assert {part["name"]: part["health"] for part in status["parts"]} == dict.fromkeys(PARTS, "healthy")
    assert {part["restarts"] for part in status["parts"]} == {0}
    assert AirflowApi(status["address"], *login(phalanx.folder)).call("GET", "/api/v2/dags")["total_entries"] == 2


def test_a_second_up_on_the_same_home_is_refused(phalanx: Phalanx, first_up: str) -> None:
    done = phalanx(*phalanx.up("--port", str(ports.a_free_port())))
    assert done.returncode == 1
    assert "is running already" in done.stderr
    assert phalanx.status()["state"] == "up"


def test_no_secret_stands_in_an_environment_a_command_line_or_an_open_file(phalanx: Phalanx, first_up: str) -> None:
    secrets: dict[str, Any] = json.loads(phalanx.folder.secrets.read_text())
    for pid in phalanx.alive():
        for name in ("environ", "cmdline"):
            content = Path(f"/proc/{pid}/{name}").read_text(errors="replace")
            assert not [kind for kind, secret in secrets.items() if secret in content], (pid, name)
    for path in phalanx.folder.home.rglob("*"):
        # What PostgreSQL keeps is its own user's alone, folder and all.
        if path.is_file() and "cluster" not in path.parts and path.stat().st_mode & 0o077:
            content = path.read_text(errors="replace")
            assert not [kind for kind, secret in secrets.items() if secret in content], path


def test_roles_can_not_enter_each_other_s_database(phalanx: Phalanx, first_up: str) -> None:
    ledger = phalanx.folder.ledger_url.read_text().strip().replace("+psycopg", "")
    assert phalanx.folder.ledger_url.stat().st_mode & 0o777 == 0o600
    with psycopg.connect(ledger) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("phalanx",)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(ledger.removesuffix("/phalanx") + "/airflow")


@pytest.mark.parametrize("name", ["triggerer", "postgres"])
def test_a_part_that_dies_is_restarted_and_counted(phalanx: Phalanx, first_up: str, name: str) -> None:
    before = phalanx.parts()[name]
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        parts = phalanx.parts()
        return parts[name]["restarts"] == 1 and all(part["health"] == "healthy" for part in parts.values())

    wait_until(is_back, f"{name} is back and all is healthy", 90)
    after = phalanx.parts()[name]
    assert after["pid"] != before["pid"]
    assert "SIGKILL" in after["last_exit"]


def test_nothing_lives_on_when_the_launcher_is_killed(phalanx: Phalanx, first_up: str) -> None:
    launcher = phalanx.status()["launcher_pid"]
    assert phalanx.alive()
    os.kill(launcher, signal.SIGKILL)
    wait_until(lambda: not phalanx.alive(), "every child of the killed launcher has ended", 60)
    status = phalanx("status", "--json")
    assert status.returncode == 1
    assert json.loads(status.stdout)["state"] == "lost"


def test_the_next_up_takes_over_runs_once_and_leaves_nothing(phalanx: Phalanx, first_up: str) -> None:
    done = phalanx(*phalanx.up("--run", "broken", "--once", "--json"))
    documents = list(_documents(done.stdout))
    assert done.returncode == 1, done.stdout + done.stderr
    assert documents[0]["password"] is None  # it was shown already
    assert documents[1]["state"] == "failed"
    assert "task divide failed" in documents[1]["reason"]
    assert "ZeroDivisionError: division by zero" in documents[1]["reason"]
    assert phalanx.alive() == []
    assert phalanx.status()["state"] == "down"


def test_a_part_that_dies_while_starting_is_a_clear_error(phalanx: Phalanx, first_up: str) -> None:
    done = phalanx(*phalanx.up(), AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC="soon")
    assert done.returncode == 1
    assert "scheduler did not start: ended with exit code 1" in done.stderr
    assert "SCHEDULER_HEARTBEAT_SEC" in done.stderr.upper()  # the tail of its log
    assert phalanx.alive() == []


def test_ctrl_c_ends_everything(phalanx: Phalanx, first_up: str) -> None:
    process = subprocess.Popen(
        phalanx.command(*phalanx.up()),
        env=phalanx.environment(),
        cwd=phalanx.user_home,
        stdout=subprocess.PIPE,
        text=True,
    )
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    try:
        wait_until(lambda: len(phalanx.alive()) > 5, "some parts run", 60)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "stopped before it was up" in said or "down" in said
    assert phalanx.alive() == []


def test_purge_removes_the_home_and_nothing_was_written_elsewhere(phalanx: Phalanx, first_up: str) -> None:
    assert list(phalanx.user_home.iterdir()) == []
    assert [path.name for path in phalanx.plugins.iterdir()] == []
    done = phalanx("down", "--purge")
    assert done.returncode == 0
    assert not phalanx.folder.home.exists()


def _documents(text: str) -> list[dict[str, Any]]:
    decoder, found, begin = json.JSONDecoder(), [], 0
    while begin < len(text.rstrip()):
        document, end = decoder.raw_decode(text, begin)
        found.append(document)
        begin = end + 1
    return found
