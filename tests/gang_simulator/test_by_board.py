"""The board decides as the plan does: every start, stop and end of a replay is the same through both."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.policy import DEFAULT_POLICY, Blocking, Policy
from gang_simulator.cluster import POOL, Cluster, plain_cluster
from gang_simulator.faults import Fault
from gang_simulator.jobs import Job
from gang_simulator.replay import NoRest
from gang_simulator.settings import NO_RESTART_COST, PolicyName, ReplaySettings, RestartCost, policy_of
from gang_simulator.simulation import Simulation, Through, simulate

NODES, GPUS = 3, 4
QUEUES = ("a", "b")


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    """A few jobs that crowd a small cluster: many ties, widths of up to all of it."""
    count = draw(st.integers(1, 14))
    return [
        Job(
            str(number),
            draw(st.integers(0, 12)) * 100,
            draw(st.sampled_from([1, 2, 3, 4, 5, 8, 10, 12])),
            draw(st.sampled_from([0, 50, 300, 1000, 4000, 20_000])),
            vc=draw(st.sampled_from([*QUEUES, ""])),
            priority=draw(st.sampled_from([0, 0, 0, 5])),
        )
        for number in range(count)
    ]


faults = st.lists(
    st.builds(
        lambda node, start, length: Fault(f"node-{node}", start * 100, (start + length) * 100),
        st.integers(0, NODES - 1),
        st.integers(0, 30),
        st.integers(1, 20),
    ),
    max_size=4,
)
policies = st.builds(
    lambda name, blocking, aged, min_run: replace(
        policy_of(name, blocking), aged_after=aged, min_run=timedelta(seconds=min_run)
    ),
    st.sampled_from(PolicyName),
    st.sampled_from([*Blocking, None]),
    st.sampled_from([None, timedelta(seconds=2500), timedelta(days=7)]),
    st.sampled_from([60, 300]),
)


def with_queues(quota: float, borrow: float | None) -> Cluster:
    """Two queues of one cohort; jobs of no queue are free of quotas."""
    queues = tuple(
        QueueView(name, cohort="all", quotas=(Quota(POOL, "gpus", quota, borrow),), weight=1.0 + number)
        for number, name in enumerate(QUEUES)
    )
    return replace(plain_cluster(NODES, GPUS), queues=queues)


clusters = st.one_of(
    st.just(plain_cluster(NODES, GPUS)),
    st.builds(with_queues, st.sampled_from([4.0, 6.0, 12.0]), st.sampled_from([None, 0.0, 4.0])),
)


def history(simulation: Simulation) -> list[tuple[object, ...]]:
    return [
        (gang.job.job_id, gang.ended_s, gang.attempt, tuple(gang.stretches), gang.queued_s, gang.lost_s)
        for gang in simulation.replayed.gangs
    ]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    jobs=traces(),
    cluster=clusters,
    policy=policies,
    faults=faults,
    cost=st.sampled_from([NO_RESTART_COST, RestartCost()]),
    are_known=st.booleans(),
    every_s=st.sampled_from([None, 400]),
    seed=st.integers(0, 2),
)
def test_board_replays_as_the_plan_does_when_anything_happens(
    jobs: list[Job],
    cluster: Cluster,
    policy: Policy,
    faults: list[Fault],
    cost: RestartCost,
    are_known: bool,
    every_s: int | None,
    seed: int,
) -> None:
    how = ReplaySettings(
        policy,
        durations_are_known=are_known,
        restart_cost=cost,
        checkpoint_every=None if every_s is None else timedelta(seconds=every_s),
        seed=seed,
    )
    found = []
    for through in Through:
        try:
            simulation = simulate(jobs, cluster, how, faults=faults, through=through)
            found.append((history(simulation), simulation.replayed.moments))
        except NoRest as error:  # whether the plan may go in circles is for its own tests; the board goes in the same
            found.append(([(str(error),)], []))
    assert found[0] == found[1]


def test_default_policy_is_the_schedulers_when_no_file_says_otherwise() -> None:
    assert policy_of(PolicyName.DEFAULT, None) == DEFAULT_POLICY
