"""What a DAG's author may say of a gang, as checked when the DAG is parsed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from gang_scheduler.gang import GangRequest, NodeWishes, Topology, WorkerGroup
from operators.gang import GangOperator
from operators.gang_errors import GangFailed, GangInterrupted, GangRetryPolicy
from operators.train import TrainOperator


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


TOPOLOGY = Topology("leaf", is_required=True)
SIX = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gang_priority": 1.5}, "gang_priority=1.5 was given; it must be a whole number, or the name of"),
        ({"gang_priority": ""}, "gang_priority='' was given"),
        ({"topology": 3}, 'topology=3 was given; it must be a level such as "leaf"'),
        ({"fallback_pools": ["cpu", "cpu"]}, "fallback_pools=.* must be different pool names"),
        ({"wishes": {"regions": ["eu"]}}, "wishes=.* must be a NodeWishes"),
        ({"deadline": datetime(2026, 3, 2)}, "deadline=.* must be a datetime with a time zone"),  # noqa: DTZ001
        ({"deadline": "tomorrow"}, "deadline='tomorrow' was given"),
        ({"finish_by": "25:00"}, "finish_by='25:00' was given; it must be a time of day in UTC"),
        ({"finish_by": "06:00", "deadline": SIX}, "give at most one of them"),
        ({"expected_duration": timedelta()}, "expected_duration=.* must be a timedelta above 0"),
        ({"checkpoint_interval": 300}, "checkpoint_interval=300 was given; it must be a timedelta"),
        ({"storage_gib": -1}, "storage_gib=-1 was given; it must be a number of at least 0"),
        ({"min_workers": 3}, "min_workers=3 was given; it must be a whole number from 1 to workers=2"),
        ({"min_workers": "0"}, "min_workers='0' was given"),
        ({"min_workers": 1, "workers": None, "worker_groups": [WorkerGroup("a", 2)]}, "say it of each WorkerGroup"),
    ],
    ids=str,
)
def test_a_term_that_cannot_be_meant_is_refused_with_what_is_allowed(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(AirflowException, match=f"GangOperator 'train': .*{said}"):
        a_gang(**changes)


def request_of(ti: Any, gang: GangOperator) -> GangRequest:
    run = SimpleNamespace(start_date=datetime(2026, 3, 1, 7, 30, tzinfo=UTC), run_after=None)
    request, _ = gang._request({"ti": ti, "dag_run": run})
    return request


def test_terms_reach_the_request(ti: Any) -> None:
    wishes = NodeWishes(regions=("eu-west",), gpu_models=("H100",))
    request = request_of(
        ti,
        a_gang(
            workers="4",
            min_workers="2",
            gang_queue="research",
            gang_priority="7",
            topology=TOPOLOGY,
            fallback_pools=["cpu"],
            wishes=wishes,
            finish_by="06:00",
            expected_duration=timedelta(hours=3),
            is_preemptible=False,
            checkpoint_interval=timedelta(minutes=10),
            storage_gib=5,
        ),
    )
    (group,) = request.worker_groups
    assert (group.fewest, group.workers, request.is_elastic) == (2, 4, True)
    assert (request.gang_queue, request.gang_priority, request.topology) == ("research", 7, TOPOLOGY)
    assert (request.pools, request.wishes, request.deadline) == (("local", "cpu"), wishes, SIX)
    assert (request.expected_duration, request.checkpoint_interval) == (timedelta(hours=3), timedelta(minutes=10))
    assert (request.is_preemptible, request.storage_gib) == (False, 5.0)


def test_a_level_by_its_name_is_preferred_and_what_is_left_out_asks_nothing(ti: Any) -> None:
    assert request_of(ti, a_gang(topology="leaf")).topology == Topology("leaf", is_required=False)
    plain = request_of(ti, a_gang())
    assert (plain.topology, plain.deadline, plain.is_elastic, plain.fallback_pools) == (None, None, False, ())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_workers": "{{ x }}"}, "min_workers='9' was asked; it must be a whole number from 1 to workers"),
        ({"deadline": "{{ x }}"}, "deadline='9' was given"),
        ({"finish_by": "{{ x }}"}, "finish_by='9' was given"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_a_template_that_became_nonsense_fails_the_task_for_good(ti: Any, changes: dict[str, str], said: str) -> None:
    gang = a_gang(**changes)  # not known yet when the DAG is parsed
    for name in changes:
        assert name in gang.template_fields
        setattr(gang, name, "9")
    with pytest.raises(AirflowFailException, match=said):
        request_of(ti, gang)


@pytest.fixture
def classes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with priority classes."""
    (home / "pools.toml").write_text("[priority]\nhigh = 100\n")
    (home / "ledger.url").write_text(f"sqlite:///{home / 'ledger.db'}")
    monkeypatch.delenv("PHALANX_POOLS", raising=False)


def test_a_priority_class_is_looked_up_in_the_settings(classes: None, ti: Any) -> None:
    assert request_of(ti, a_gang(gang_priority="high")).gang_priority == 100


def test_an_unknown_priority_class_fails_the_task_and_names_those_that_there_are(classes: None, ti: Any) -> None:
    with pytest.raises(
        AirflowFailException, match=r"gang priority 'urgent' was asked; priority classes: 'high' \(100\)"
    ):
        a_gang(gang_priority="urgent").execute({"ti": ti})


def test_the_training_program_is_not_elastic() -> None:
    with pytest.raises(AirflowException, match="exactly the workers that its RunSpec names"):
        TrainOperator(task_id="train", recipe="flights", data={}, workers=4, min_workers=2)
