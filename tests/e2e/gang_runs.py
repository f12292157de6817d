"""What tests of gangs ask of a DAG run with one gang: start it, see it progress, and prove what its ledger says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_api import AirflowApi, wait_for
from gang_processes import GangProcess, of_home

from gang_controller.controller import GangController
from gang_controller.wiring import open_controller
from gang_ledgers.history_check import overlaps
from gang_ledgers.ledger import GangRecord, HistoryRow
from training import heartbeat

DAG_ID = "held_gang"
CHECKPOINT_EVERY_STEPS = 10


def value_after(steps: int) -> str:
    """What an undisturbed run of the steps program ends with."""
    value = "start"
    for step in range(1, steps + 1):
        value = hashlib.sha256(f"{value}{step}".encode()).hexdigest()
    return value


@dataclass
class GangRun:
    """One run and the gang of its task "train"; of the held DAG, if no other is named."""

    api: AirflowApi
    home: Path
    run_id: str
    dag_id: str = DAG_ID

    @property
    def gang_id(self) -> str:
        """The id of its gang."""
        return f"{self.dag_id}/{self.run_id}/train"

    @classmethod
    def start(cls, api: AirflowApi, home: Path, dag_id: str = DAG_ID, **conf: Any) -> GangRun:
        """Trigger a run."""
        return cls(api, home, api.trigger(dag_id, **conf), dag_id)

    def train_again(self) -> int:
        """Clear the task alone after its success, which trains from scratch; returns the new submission's number."""
        before = self.record()
        assert before is not None
        self.api.clear(self.dag_id, self.run_id, ["train"])
        wait_for(
            lambda: (now := self.record()) and now.submission > before.submission,
            f"{self.gang_id} is asked for anew",
            120,
        )
        return before.submission + 1

    def record(self) -> GangRecord | None:
        """What the ledger says of the gang now."""
        with controller(self.home) as gangs:
            return gangs.state(self.gang_id)

    def history(self) -> list[HistoryRow]:
        """What the ledger says happened to the gang."""
        with controller(self.home) as gangs:
            return gangs.history(self.gang_id)

    def processes(self, role: str = "") -> list[GangProcess]:
        """The live processes of this home (of one role)."""
        return [found for found in of_home(self.home) if role in ("", found.role)]

    def step(self) -> int:
        """The last step that the gang has reported; 0 before the first."""
        record = self.record()
        beat = heartbeat.read(Path(record.run_dir)) if record else None
        return beat.step if beat else 0

    def wait_step(self, step: int, within_s: float = 90) -> int:
        """Wait until the gang has reached a step, and return the one it was seen at."""
        return wait_for(lambda: s if (s := self.step()) >= step else None, f"{self.gang_id} at step {step}", within_s)

    def wait(self, expect: str = "success", within_s: float = 240) -> None:
        """Wait for the end of the run."""
        self.api.wait_run(self.dag_id, self.run_id, within_s, expect)

    def task(self) -> dict[str, Any]:
        """The task instance as Airflow has it."""
        return self.api.tasks(self.dag_id, self.run_id)["train"]

    def log(self, try_number: int = 1) -> str:
        """The task's log."""
        return self.api.log(self.dag_id, self.run_id, "train", try_number)

    def result(self, submission: int = 1) -> dict[str, Any]:
        """What the program left as its result."""
        record = self.record()
        assert record is not None
        return dict(json.loads((Path(record.run_dir).parent / f"submission-{submission}" / "result.json").read_text()))

    def assert_never_two_alive(self) -> None:
        """The ledger's history proves that no two attempts lived at once."""
        assert overlaps(self.history()) == []

    def assert_nothing_is_left(self, within_s: float = 30) -> None:
        """No process of any gang of this home lives."""
        wait_for(lambda: not self.processes(), f"the gang's processes end: {self.processes()}", within_s)


@contextmanager
def controller(home: Path) -> Iterator[GangController]:
    """A controller on the home's ledger."""
    gangs = open_controller(home)
    try:
        yield gangs
    finally:
        gangs.close()
