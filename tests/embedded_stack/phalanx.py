"""The real command line over a temporary home, with a tiny DAG folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded_stack import processes
from embedded_stack.state_folder import StateFolder

TINY_DAGS = """
from airflow.sdk import dag, task


@dag(schedule=None, params={"number": 1})
def tiny():
    @task
    def answer(params=None):
        return {"model_id": params["number"], "auc": 0.75}

    answer()


@dag(schedule=None)
def broken():
    @task
    def divide():
        return 1 / 0

    divide()


tiny()
broken()
"""


def wait_until(condition: Callable[[], object], what: str, within_s: float) -> None:
    """Wait for a condition with a deadline."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within_s:.0f} s: {what}"
        time.sleep(0.1)


@dataclass
class Phalanx:
    """The command line, bound to one home; the user's own home folder is empty and must stay so."""

    folder: StateFolder
    user_home: Path
    dags: Path
    plugins: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PHALANX", "XDG"))}
        return {**kept, "HOME": str(self.user_home), "PHALANX_HOME": str(self.folder.home), **more}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "phalanx_cli.main", *arguments]

    def up(self, *arguments: str) -> tuple[str, ...]:
        return ("up", "--dags", str(self.dags), "--plugins", str(self.plugins), *arguments)

    def __call__(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(**more),
            cwd=self.user_home,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self("status", "--json").stdout))

    def parts(self) -> dict[str, dict[str, Any]]:
        return {part["name"]: part for part in self.status()["parts"]}

    def alive(self) -> list[int]:
        """Processes of the stack that are alive, its launcher apart."""
        return [p.pid for p in processes.of_stack(self.folder.home, self.folder.postgres / "cluster")]
