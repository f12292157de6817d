"""A run whose gang could never start ends before it works, not after."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from operators.gang import GangOperator
from operators.preflight import refuse_impossible_gangs

log = logging.getLogger(__name__)


def a_run(ti: Any, workers: str, **terms: Any) -> Any:
    with DAG("nightly", params={"workers": 2}) as dag:
        GangOperator(task_id="train", command=["-m", "x"], workers=workers, **terms)
    return {"ti": ti, "dag": dag, "params": {"workers": 2}, "dag_run": SimpleNamespace(conf={})}


@pytest.fixture
def two_slots(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger of one host with two slots."""
    (home / "ledger.url").write_text(f"sqlite:///{home}/ledger.db")
    monkeypatch.setenv("PHALANX_LOCAL_SLOTS", "2")


@pytest.mark.usefixtures("two_slots")
def test_run_is_refused_at_once_when_its_gang_would_never_fit(ti: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"task 'train' of this run would be refused: .* asks 9 CPUs"):
        refuse_impossible_gangs(a_run(ti, "9"), log)


@pytest.mark.usefixtures("two_slots")
def test_run_goes_on_and_tells_when_its_gang_would_start_now(ti: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        refuse_impossible_gangs(a_run(ti, "{{ params.workers }}"), log)
    assert "task 'train' will ask for 2 CPUs: would start now in gang pool 'local'" in caplog.text


@pytest.mark.usefixtures("two_slots")
def test_nothing_is_asked_for_by_asking(ti: Any) -> None:
    refuse_impossible_gangs(a_run(ti, "2", queue_limit=timedelta(hours=1)), log)
    from gang_controller.wiring import open_ledger

    ledger = open_ledger()
    assert ledger.list_gangs() == []
    ledger.close()


@pytest.mark.usefixtures("home")
def test_run_goes_on_when_there_is_no_ledger_to_ask(ti: Any, caplog: pytest.LogCaptureFixture) -> None:
    refuse_impossible_gangs(a_run(ti, "9"), log)
    assert "not known yet" in caplog.text
