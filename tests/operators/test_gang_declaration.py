"""What a DAG's author may say of a gang, as checked when the DAG is parsed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, RetryAction
from airflow.sdk.exceptions import AirflowException

from gang_scheduler.gang import WorkerGroup
from operators.gang import GangOperator
from operators.gang_errors import GangFailed, GangInterrupted, GangRetryPolicy


def a_gang(**changes: Any) -> GangOperator:
    given: dict[str, Any] = {"task_id": "train", "command": ("-m", "m"), "workers": 2}
    return GangOperator(**given | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"retries": 3}, "GangOperator 'train': retries=3 was set, .* Set user_retries"),
        ({"execution_timeout": timedelta(hours=1)}, "execution_timeout=.* was set, .* Set run_limit"),
        ({"workers": None}, "give exactly one"),
        ({"worker_groups": [WorkerGroup("trainer", 2)]}, "give exactly one"),
    ],
    ids=["retries", "execution_timeout", "no workers", "workers and groups"],
)
def test_a_declaration_that_cannot_be_meant_is_refused_with_what_to_say_instead(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(AirflowException, match=said):
        a_gang(**changes)


def test_a_dag_s_default_retries_are_for_its_other_tasks() -> None:
    with DAG("d", default_args={"retries": 1, "execution_timeout": timedelta(hours=1)}):
        gang = a_gang()
    assert gang.retries == 5
    assert gang.execution_timeout is None


def test_airflow_s_own_words_stay_airflow_s() -> None:
    gang = a_gang(queue="cpu", pool="small", priority_weight=3, gang_queue="nightly", gang_pool="gpu", gang_priority=9)
    assert (gang.queue, gang.pool, gang.priority_weight) == ("cpu", "small", 3)
    assert (gang.gang_queue, gang.gang_pool, gang.gang_priority) == ("nightly", "gpu", 9)


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (GangFailed("rank 1 raised ValueError"), RetryAction.FAIL),
        (GangInterrupted("stopped"), RetryAction.FAIL),
        (ConnectionError("the ledger is away"), RetryAction.DEFAULT),
    ],
)
def test_airflow_retries_everything_but_a_gang_s_verdict(error: Exception, action: RetryAction) -> None:
    assert GangRetryPolicy().evaluate(error, 1, 5).action is action
