"""What holds for every cluster, every setting and every gang; hypothesis looks for one where it doesn't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest

from gang_scheduler.actions import Action, Admit, AskStop, StopReason, Wait, WaitReason
from gang_scheduler.gang import NO_WISHES, GangRequest
from gang_scheduler.gang_state import GangState
from gang_scheduler.plan import plan
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, Snapshot
from tests.gang_scheduler.bookkeeping import admitted, holding, loads, used, watts
from tests.gang_scheduler.clusters import seeds, snapshot_of
from tests.gang_scheduler.effort import EFFORT, try_all

T = TypeVar("T")
Actions = Sequence[Action]
BLOCKED = {WaitReason.NO_CAPACITY, WaitReason.RESERVED, WaitReason.BEHIND_ANOTHER_GANG}


def no_node_is_over(snapshot: Snapshot, actions: Actions) -> None:
    sizes = {(node.pool, node.node): node.capacity for node in snapshot.nodes}
    held = holding(snapshot) + admitted(snapshot, actions)
    for node, load in loads(held).items():
        assert not load.over(sizes[node]), (node, load)


def no_pool_is_over(snapshot: Snapshot, actions: Actions) -> None:
    before, new = holding(snapshot), admitted(snapshot, actions)
    for pool in snapshot.pools:
        here = [request for request, placement in before + new if placement.pool == pool.name]
        if pool.storage_gib and any(request.storage_gib for request, placed in new if placed.pool == pool.name):
            assert sum(request.storage_gib for request in here) <= pool.storage_gib
        draws = watts(snapshot, pool.name, before + new)
        if pool.power_cap_w and draws > watts(snapshot, pool.name, before):
            assert draws <= pool.power_cap_w


def no_queue_is_over(snapshot: Snapshot, actions: Actions) -> None:
    before, new = holding(snapshot), admitted(snapshot, actions)
    was, now = used(before), used(before + new)
    for queue in snapshot.queues:
        mine = [(request, placed) for request, placed in new if request.gang_queue == queue.name]
        if not mine:
            continue
        gangs = [request for request, _ in before + new if request.gang_queue == queue.name]
        assert not queue.max_gangs or len(gangs) <= queue.max_gangs
        gpus = sum(amount for (name, _, what), amount in now.items() if name == queue.name and what == "gpus")
        assert (
            not queue.max_gpus
            or gpus <= queue.max_gpus + 1e-6
            or gpus == sum(amount for (name, _, what), amount in was.items() if name == queue.name and what == "gpus")
        )
        for quota in queue.quotas:
            flavour = (queue.name, quota.pool, quota.resource)
            if now[flavour] > was[flavour] + 1e-6 and (quota.borrow is not None or not queue.cohort):
                limit = quota.nominal + ((quota.borrow or 0.0) if queue.cohort else 0.0)
                assert now[flavour] <= limit + 1e-6, flavour
    assert_cohorts(snapshot, was, now)


def assert_cohorts(snapshot: Snapshot, was: Counter[tuple[str, str, str]], now: Counter[tuple[str, str, str]]) -> None:
    """What is drawn from a cohort's pot never grows beyond it."""
    quotas = [(queue, quota) for queue in snapshot.queues if queue.cohort for quota in queue.quotas]
    for cohort, pool, resource in {(queue.cohort, quota.pool, quota.resource) for queue, quota in quotas}:
        pot = drawn_was = drawn_now = 0.0
        for queue, quota in quotas:
            if (queue.cohort, quota.pool, quota.resource) != (cohort, pool, resource):
                continue
            lent = quota.nominal if quota.lend is None else min(quota.lend, quota.nominal)
            kept, flavour = quota.nominal - lent, (queue.name, pool, resource)
            pot += lent
            drawn_was += max(0.0, was[flavour] - kept)
            drawn_now += max(0.0, now[flavour] - kept)
        assert drawn_now <= drawn_was + 1e-6 or drawn_now <= pot + 1e-6


def gangs_are_whole_and_where_they_may_be(snapshot: Snapshot, actions: Actions) -> None:
    nodes = {(node.pool, node.node): node for node in snapshot.nodes}
    for request, placement in admitted(snapshot, actions):
        assert placement.pool in request.pools
        counts: Counter[str] = Counter()
        there = []
        for placed in placement.workers:
            counts[placed.group] += placed.workers
            assert placed.workers > 0
            there.append(nodes[placement.pool, placed.node])
        for group in request.worker_groups:
            assert group.fewest <= counts[group.name] <= group.workers
        wishes = request.wishes
        for node in there:
            assert node.state.value == "ready"
            assert not node.is_cordoned
            assert not wishes.regions or node.region in wishes.regions
            assert all(node.labels[name] == value for name, value in wishes.labels.items())
            assert node.node not in wishes.excluded
        assert not wishes.gpu_models or len({node.gpu_model for node in there} & set(wishes.gpu_models)) == 1
        assert not wishes.gpu_models or len({node.gpu_model for node in there}) == 1
        if request.topology is not None and request.topology.is_required:
            domains = {node.node if request.topology.level == "node" else node.location[0] for node in there}
            assert len(domains) == 1
        locations = [(node.location, node.node) for node in there]
        assert locations == sorted(locations), "ranks follow the fabric"


def shuffled_by(random: Random, items: Sequence[T]) -> tuple[T, ...]:
    return tuple(random.sample(list(items), len(items)))


def order_means_nothing(seed: int) -> None:
    snapshot, random = snapshot_of(seed), Random(seed)
    shuffled = replace(
        snapshot,
        gangs=shuffled_by(random, snapshot.gangs),
        nodes=shuffled_by(random, snapshot.nodes),
        pools=shuffled_by(random, snapshot.pools),
        queues=shuffled_by(random, snapshot.queues),
    )
    assert plan(shuffled) == plan(snapshot)
    assert plan(snapshot) == plan(snapshot)


def every_gang_is_decided_once(snapshot: Snapshot, actions: Actions) -> None:
    assert len({act.key.gang_id for act in actions}) == len(actions)
    told = {act.key.gang_id for act in actions if isinstance(act, Admit | Wait)}
    waiting = {view.request.gang_id for view in snapshot.gangs if view.state is GangState.QUEUED}
    assert told == waiting, "whoever is not admitted is told why"


def only_who_may_be_stopped_is(snapshot: Snapshot, actions: Actions) -> None:
    views = {view.request.gang_id: view for view in snapshot.gangs}
    queues = {queue.name: queue for queue in snapshot.queues}
    top = max((view.request.gang_priority for view in snapshot.gangs if not view.holds_capacity), default=-1)
    for act in actions:
        if not isinstance(act, AskStop):
            continue
        view = views[act.key.gang_id]
        assert view.state is GangState.RUNNING, act
        if act.reason in (StopReason.PREEMPTED, StopReason.SHRINKS, StopReason.RECLAIMED):
            assert view.request.is_preemptible
            assert view.request.gang_priority <= top
        if act.reason is StopReason.RECLAIMED:
            assert snapshot.policy.reclaims_quota
            assert queues[view.request.gang_queue].cohort
        if act.reason in (StopReason.SHRINKS, StopReason.GROWS):
            assert view.request.is_elastic
        if act.reason is StopReason.WINDOW:
            assert queues[view.request.gang_queue].harvests_only


def slots(each: Resources, sizes: Sequence[Resources]) -> int:
    return sum(each.times_in(size) for size in sizes)


def is_simple(request: GangRequest) -> bool:
    return (
        len(request.worker_groups) == 1
        and not request.total.gpu_share
        and not request.total.mig
        and request.wishes == NO_WISHES
        and (request.topology is None or not request.topology.is_required)
        and request.total.gpus > 0
    )


def nobody_passes_the_highest_priority_that_fits(snapshot: Snapshot, actions: Actions) -> None:
    """The one of the highest priority waits for room only if there was none for it before anybody was let in."""
    waiting = [view for view in snapshot.gangs if view.state is GangState.QUEUED and not view.is_held]
    if not waiting or any(view.state is GangState.STOPPING for view in snapshot.gangs):
        return
    top = max(view.request.gang_priority for view in waiting)
    highest = [view for view in waiting if view.request.gang_priority == top]
    first: GangView = highest[0]
    if len(highest) > 1 or not is_simple(first.request):
        return
    act = next(act for act in actions if act.key.gang_id == first.request.gang_id)
    if not isinstance(act, Wait) or act.reason not in BLOCKED:
        return
    assert act.reason is WaitReason.NO_CAPACITY, "nobody is before it"
    held = loads(holding(snapshot))
    free = []
    for node in snapshot.nodes:
        if node.pool == first.request.gang_pool and node.is_usable:
            load = held.get((node.pool, node.node))
            gone = (
                Resources()
                if load is None
                else Resources(
                    load.cpus,
                    load.memory_gib,
                    load.gpus + sum(1 for used in load.thousandths.values() if used),
                    load.scratch_gib,
                )
            )
            free.append(node.capacity - gone)
    group = first.request.worker_groups[0]
    assert slots(group.each, free) < group.fewest


CHECKS = [
    no_node_is_over,
    no_pool_is_over,
    no_queue_is_over,
    gangs_are_whole_and_where_they_may_be,
    every_gang_is_decided_once,
    only_who_may_be_stopped_is,
    nobody_passes_the_highest_priority_that_fits,
]


def every_rule_is_kept(seed: int) -> None:
    snapshot = snapshot_of(seed)
    actions = plan(snapshot)
    for check in CHECKS:
        check(snapshot, actions)


@pytest.mark.parametrize("cases", EFFORT)
def test_plan_keeps_every_rule_whatever_the_cluster(cases: int) -> None:
    try_all(every_rule_is_kept, cases, seeds)


@pytest.mark.parametrize("cases", EFFORT)
def test_plan_is_the_same_whatever_the_order_of_the_snapshot(cases: int) -> None:
    try_all(order_means_nothing, cases, seeds)
