"""The main job, whole: raw rows in, a champion out; and doing it again, which does nothing."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_api import AirflowApi, wait_for

from gang_controller.wiring import open_ledger, open_registry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
DAG_ID = "nightly_retraining"
TASKS = ["preprocess", "validate", "train", "evaluate", "promote"]
SMALL = {"window_days": 4, "epochs": 2}
LIMIT_S = 900.0


@pytest.fixture(scope="module")
def api(stack: Any) -> AirflowApi:
    """The API, with the DAG switched on and no run of the schedule's own in the way."""
    stack.switch_on_nightly()
    api: AirflowApi = stack.api
    return api


@pytest.fixture(scope="module")
def run_id(api: AirflowApi) -> str:
    """A run of 15 March 2013, ended well."""
    run_id: str = api.trigger(DAG_ID, logical_date="2013-03-16T00:00:00Z", **SMALL)
    api.wait_run(DAG_ID, run_id, LIMIT_S)
    return run_id


def logs(api: AirflowApi, run_id: str) -> dict[str, str]:
    """The newest log of each task."""
    return {name: api.log(DAG_ID, run_id, name, task["try_number"]) for name, task in api.tasks(DAG_ID, run_id).items()}


def status_of(url: str, token: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_run_trains_on_the_days_before_and_registers_its_model(api: AirflowApi, run_id: str, stack: Any) -> None:
    data = api.xcom(DAG_ID, run_id, "preprocess")
    assert data["day"] == "2013-03-15"
    assert data["window"] == ["2013-03-11", "2013-03-12", "2013-03-13", "2013-03-14"]
    promoted = api.xcom(DAG_ID, run_id, "promote")
    registry = open_registry(stack.home)
    model = registry.model(promoted["model_id"])
    registry.close()
    assert model.facts.gang_id == f"{DAG_ID}/{run_id}/train"
    assert Path(model.facts.uri).is_relative_to(stack.home / "models")
    assert 0.5 < model.facts.metrics["challenger"]["auc"] <= 1


def test_progress_and_rank_0_s_output_are_in_the_task_s_log(api: AirflowApi, run_id: str) -> None:
    log = logs(api, run_id)["train"]
    for said in ("attempt 1 admitted whole: 2 workers", "[rank 0] ", "attempt 1: step ", "submission 1 succeeded"):
        assert said in log


def test_the_quality_report_is_one_click_away_for_who_may_see_the_dag(api: AirflowApi, run_id: str) -> None:
    links = api.call("GET", f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/validate/links")["extra_links"]
    url = api.base_url + links["Quality report"]
    assert status_of(url) == 401
    assert status_of(url, api._token) == 200


def test_doing_a_run_again_does_no_work(api: AirflowApi, run_id: str, stack: Any) -> None:
    before = api.xcom(DAG_ID, run_id, "train")
    api.clear(DAG_ID, run_id, TASKS)
    wait_for(lambda: api.run_state(DAG_ID, run_id) != "success", "the run is cleared", 30)
    api.wait_run(DAG_ID, run_id, LIMIT_S)
    said = logs(api, run_id)
    assert "Spark isn't started" in said["preprocess"]
    assert "its result is taken, nothing is launched" in said["train"]
    assert "compared on the same data before" in said["evaluate"]
    after = api.xcom(DAG_ID, run_id, "train")
    assert after["model_digest"] == before["model_digest"]
    assert after["submission"] == before["submission"] + 1
    ledger = open_ledger(stack.home)
    history = ledger.history(before["gang_id"])
    ledger.close()
    assert [row.event for row in history].count("launched") == 1


@pytest.mark.slow
def test_a_backfill_newest_first_never_shows_a_model_the_day_it_is_compared_on(api: AirflowApi, stack: Any) -> None:
    options = {"run_backwards": True, "max_active_runs": 2, "dag_run_conf": {**SMALL, "window_days": 2}}
    backfill_id = api.backfill(DAG_ID, "2013-02-10T00:00:00Z", "2013-02-12T23:59:00Z", **options)
    wait_for(
        lambda: api.call("GET", f"/api/v2/backfills/{backfill_id}")["completed_at"], "the backfill ends", LIMIT_S, 2.0
    )
    mine = ("2013-02-10", "2013-02-11", "2013-02-12")  # the stack is shared, and may have run other backfills
    runs = [run for run in api.runs(DAG_ID) if run["run_type"] == "backfill" and run["logical_date"].startswith(mine)]
    assert [run["state"] for run in runs] == ["success"] * 3
    days = set()
    registry = open_registry(stack.home)
    for run in runs:
        data = api.xcom(DAG_ID, run["dag_run_id"], "preprocess")
        model = api.xcom(DAG_ID, run["dag_run_id"], "train")
        days.add(data["day"])
        assert date.fromisoformat(data["window"][-1]) == date.fromisoformat(data["day"]) - timedelta(days=1)
        assert model["data_until"] == data["day"]
        if model["champion"]:
            seen_until = registry.model(int(model["champion"]["model_id"])).facts.seen_until
            assert seen_until.date() <= date.fromisoformat(data["day"])
    registry.close()
    assert days == set(mine)
