from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.policy import Blocking, Order, Policy
from gang_simulator.cluster import Cluster, plain_cluster, request_of
from gang_simulator.faults import Fault
from gang_simulator.jobs import Job
from gang_simulator.settings import NO_RESTART_COST, PolicyName, ReplaySettings, RestartCost, policy_of
from gang_simulator.sim_gang import SimGang
from gang_simulator.simulation import Simulation, Through, simulate

FIFO = policy_of(PolicyName.FIFO, Blocking.HEAD)
AT_ONCE = Policy(order=Order.SRSF, preempts_by_order=True, min_run=timedelta(), aged_after=None)


def run(
    jobs: Sequence[Job],
    policy: Policy = FIFO,
    *,
    nodes: int = 1,
    gpus: int = 8,
    faults: Sequence[Fault] = (),
    cost: RestartCost = NO_RESTART_COST,
    every_s: float | None = 100.0,
    through: Through = Through.BOARD,
    cluster: Cluster | None = None,
) -> Simulation:
    every = None if every_s is None else timedelta(seconds=every_s)
    settings = ReplaySettings(policy, restart_cost=cost, checkpoint_every=every)
    return simulate(jobs, cluster or plain_cluster(nodes, gpus), settings, faults=faults, through=through)


def ends(simulation: Simulation) -> dict[str, float]:
    zero_s = simulation.settings.starts_at.timestamp()
    return {gang.job.job_id: (gang.ended_s or float("nan")) - zero_s for gang in simulation.replayed.gangs}


def gang_of(simulation: Simulation, job_id: str) -> SimGang:
    return next(gang for gang in simulation.replayed.gangs if gang.job.job_id == job_id)


both = pytest.mark.parametrize("through", list(Through))


@both
def test_jobs_queue_in_order_when_the_node_is_full(through: Through) -> None:
    jobs = [Job("a", 0, 8, 100), Job("b", 10, 8, 50), Job("c", 20, 1, 5)]
    assert ends(run(jobs, through=through)) == {"a": 100, "b": 150, "c": 155}


@both
def test_a_small_job_passes_when_nothing_blocks_it(through: Through) -> None:
    jobs = [Job("a", 0, 4, 100), Job("b", 10, 8, 50), Job("c", 20, 1, 5)]
    policy = policy_of(PolicyName.FIFO, Blocking.NONE)
    assert ends(run(jobs, policy, through=through)) == {"a": 100, "b": 150, "c": 25}


@both
def test_work_is_kept_and_the_restart_paid_when_a_shorter_one_takes_the_place(through: Through) -> None:
    jobs = [Job("long", 0, 8, 1000), Job("short", 100, 8, 50)]
    simulation = run(jobs, AT_ONCE, cost=RestartCost(), through=through)
    assert ends(simulation) == {"short": 150, "long": 1000 + 50 + 30}
    numbers = simulation.numbers
    assert numbers["preemptions"] == 1
    assert numbers["work_lost_gpu_s"] == 0
    assert numbers["restarting_gpu_s"] == 8 * 30
    assert numbers["goodput"] == pytest.approx(1050 / 1080)
    assert [stretch.how for stretch in gang_of(simulation, "long").stretches] == ["stopped", "ended"]


@both
def test_what_was_done_since_the_last_checkpoint_is_done_again_when_a_node_fails(through: Through) -> None:
    jobs = [Job("a", 0, 8, 1000)]
    faults = [Fault("node-0", 250, 400)]
    simulation = run(jobs, faults=faults, through=through)
    assert ends(simulation) == {"a": 400 + 1000 - 200}
    assert simulation.numbers["work_lost_gpu_s"] == 8 * 50
    assert simulation.numbers["gangs_hit_by_faults"] == 1
    assert simulation.numbers["preemptions"] == 0


def test_all_of_the_attempt_is_done_again_when_it_saves_nothing() -> None:
    simulation = run([Job("a", 0, 8, 1000)], faults=[Fault("node-0", 250, 400)], every_s=None)
    assert ends(simulation) == {"a": 1400}


@both
def test_the_gang_goes_elsewhere_after_its_back_off_when_another_node_is_free(through: Through) -> None:
    simulation = run([Job("a", 0, 8, 1000)], nodes=2, faults=[Fault("node-0", 200, 99_999)], through=through)
    (gang,) = simulation.replayed.gangs
    assert [stretch.nodes for stretch in gang.stretches] == [("node-0",), ("node-1",)]
    assert ends(simulation) == {"a": 202 + 800}


def test_a_node_comes_back_only_when_its_last_fault_is_over() -> None:
    faults = [Fault("node-0", 0, 500), Fault("node-0", 100, 200)]
    assert ends(run([Job("a", 50, 8, 10)], faults=faults)) == {"a": 510}


@both
def test_a_gang_that_ends_as_its_node_fails_is_done_when_both_are_of_one_instant(through: Through) -> None:
    assert ends(run([Job("a", 0, 8, 100)], faults=[Fault("node-0", 100, 200)], through=through)) == {"a": 100}


@both
def test_room_is_given_on_when_it_is_freed_and_asked_for_at_one_instant(through: Through) -> None:
    jobs = [Job("a", 0, 8, 100), Job("b", 100, 8, 50)]
    assert ends(run(jobs, through=through)) == {"a": 100, "b": 150}


def test_a_job_of_no_length_is_done_when_it_starts() -> None:
    assert ends(run([Job("a", 0, 8, 100), Job("b", 3, 1, 0)])) == {"a": 100, "b": 100}


def test_a_wide_job_takes_whole_nodes_and_a_remainder_when_no_node_holds_it() -> None:
    cluster = plain_cluster(4, 8)
    request = request_of(Job("a", 0, 20, 1), 0, cluster, durations_are_known=True, checkpoint_every_s=None)
    assert [(group.workers, group.each.gpus) for group in request.worker_groups] == [(2, 8), (1, 4)]
    small = request_of(Job("b", 0, 5, 1), 0, cluster, durations_are_known=True, checkpoint_every_s=None)
    assert [(group.workers, group.each.gpus) for group in small.worker_groups] == [(1, 5)]


def test_jobs_are_left_out_with_the_reason_when_they_can_never_fit() -> None:
    jobs = [Job("fits", 0, 8, 1), Job("wide", 0, 16, 1), Job("cpu", 0, 0, 1)]
    numbers = run(jobs).numbers
    assert numbers["jobs"] == 1
    assert {job["job_id"]: job["reason"] for job in numbers["left_out"]} == {
        "wide": "asks 16 GPUs; 1 nodes x 8 GPUs hold 8",
        "cpu": "asks no GPU; only jobs with GPUs are replayed",
    }


def test_it_is_refused_when_no_job_fits() -> None:
    with pytest.raises(ValueError, match="none of the 1 jobs fits"):
        run([Job("wide", 0, 16, 1)])


@both
def test_who_waits_for_ever_is_named_when_its_queue_may_hold_nothing(through: Through) -> None:
    closed = QueueView("default", quotas=(Quota("gpu", "gpus", 0.0),))
    cluster = replace(plain_cluster(1, 8), queues=(closed, QueueView("open")))
    simulation = run([Job("a", 0, 8, 10, vc="open"), Job("b", 50, 8, 10)], Policy(), cluster=cluster, through=through)
    numbers = simulation.numbers
    assert numbers["jobs"] == 1
    assert list(numbers["never_started"]) == ["b"]
    assert "gang queue 'default'" in numbers["never_started"]["b"]


def test_a_job_runs_faster_when_its_node_does() -> None:
    cluster = plain_cluster(1, 8)
    cluster = replace(cluster, nodes=tuple(replace(node, compute=2.0) for node in cluster.nodes))
    simulation = run([Job("a", 0, 8, 100)], cluster=cluster)
    assert ends(simulation) == {"a": 50}
    assert simulation.numbers["lower_bound_s"] == 50


def test_progress_tells_every_end_when_asked_for() -> None:
    told: list[tuple[int, int, float]] = []
    jobs = [Job("a", 0, 8, 100), Job("b", 10, 8, 50)]
    settings = ReplaySettings(FIFO)
    simulate(jobs, plain_cluster(1, 8), settings, on_progress=lambda *how: told.append(how))
    assert told == [(1, 2, 100.0), (2, 2, 150.0)]
