"""DAGs of one gang whose Airflow process can be held at a chosen moment, so that a test can kill it right there."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from operators.gang import GangOperator
from operators.params import TrainingParams
from operators.preprocess import SparkPreprocessOperator
from operators.train import TrainOperator

PROGRAM = str(Path(__file__).resolve().parent.parent / "steps_program.py")


def held_at(moment: str) -> None:
    """Write this process's pid and stay while `$PHALANX_HOME/holds/<moment>` exists."""
    hold = Path(os.environ["PHALANX_HOME"]) / "holds" / moment
    if hold.exists():
        hold.with_suffix(".pid").write_text(str(os.getpid()))
    deadline = time.monotonic() + 120
    while hold.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


class Held(GangOperator):
    """Its task process stops at "execute" (the gang is asked for, the task not yet deferred) and at "resume"."""

    def defer(self, **kwargs: Any) -> Any:
        """Hold after the gang was asked for, then defer."""
        held_at("execute")
        return super().defer(**kwargs)

    def resume(self, context: Any, event: Any = None) -> Any:
        """Hold when woken, then go on."""
        held_at("resume")
        return super().resume(context, event)


class HeldGangOperator(Held):
    """Any program."""


class HeldTrainOperator(Held, TrainOperator):
    """The nightly run's training."""


with DAG(
    "held_gang",
    schedule=None,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    max_active_runs=8,
    params={
        "steps": Param(60, type="integer"),
        "step_s": Param(0.1, type="number"),
        "fail_at": Param(-1, type="integer"),
        "workers": Param(2, type="integer"),
    },
):
    HeldGangOperator(
        task_id="train",
        command=(PROGRAM, "{run_spec}"),
        run_spec={
            "steps": "{{ params.steps }}",
            "step_s": "{{ params.step_s }}",
            "fail_at": "{{ params.fail_at }}",
            "run": "{{ run_id }}",
        },
        workers="{{ params.workers }}",
        queue_limit=timedelta(minutes=10),
        checkpoint_grace=timedelta(seconds=15),
    )

with DAG(
    "held_training",
    schedule=None,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    params=TrainingParams.as_airflow(),
):
    days = SparkPreprocessOperator(task_id="preprocess", job="data_pipelines.flights")
    HeldTrainOperator(
        task_id="train", recipe="flights", data=days.output, gang_pool="local", workers="{{ params.workers }}"
    )
