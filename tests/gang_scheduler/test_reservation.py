"""A reservation is never delayed: looked at with exact durations, to the end, whoever is let past."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from gang_scheduler.actions import Admit
from gang_scheduler.gang_state import GangState
from gang_scheduler.plan import plan
from gang_scheduler.policy import Blocking, Order
from gang_scheduler.snapshot import GangView, Snapshot
from tests.builders import NOON, a_gpu_gang, a_policy, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.bookkeeping import Held, first_fit, holding, loads
from tests.gang_scheduler.clusters import seeds
from tests.gang_scheduler.effort import EFFORT, try_all

MINUTE = timedelta(minutes=1)


def exact(chance: Random, number: int) -> GangView:
    """Asked so many minutes ago; runs exactly as long as it says."""
    workers, gpus = chance.randint(1, 4), chance.choice([1, 2, 3, 4])
    request = a_gpu_gang(
        f"dag/run-{number}/train", workers=workers, gpus=gpus, minutes=chance.choice([1, 5, 7, 30, 60, 61, 200])
    )
    return a_view(request, waited=chance.randint(1, 600) * MINUTE)


def a_busy_cluster(seed: int) -> Snapshot:
    """One pool, one queue, one priority, no preemption; some run since a minute, the others wait."""
    chance = Random(seed)
    nodes, held, gangs = gpu_nodes(chance.randint(1, 4), gpus=4), list[Held](), list[GangView]()
    for number in range(chance.randint(4, 14)):
        view = exact(chance, number)
        placement = first_fit(view.request, nodes, held) if number < 5 else None
        if placement is not None:
            held.append((view.request, placement))
            view = a_view(view.request, GangState.RUNNING, placement=placement, lease_expires_at=None)
        gangs.append(view)
    policy = a_policy(
        order=chance.choice([Order.FIFO, Order.SJF, Order.DUE]),
        blocking=chance.choice([Blocking.EASY, Blocking.CONSERVATIVE]),
    )
    return a_snapshot(*gangs, nodes=nodes, policy=policy)


def end_of(view: GangView) -> timedelta:
    """After noon."""
    assert view.request.expected_duration is not None
    return view.state_since + view.request.expected_duration - NOON


def place_in_line(view: GangView, order: Order) -> tuple[float, float, str]:
    """The order's own words, spelt out."""
    asked, duration = view.submitted_at.timestamp(), view.request.expected_duration
    assert duration is not None
    first = {
        Order.FIFO: asked,
        Order.SJF: duration.total_seconds(),
        Order.DUE: asked + 10 * duration.total_seconds(),
    }[order]
    return first, asked, view.request.gang_id


def fits(view: GangView, snapshot: Snapshot, running: list[GangView]) -> bool:
    group, held = view.request.worker_groups[0], loads(holding(replace(snapshot, gangs=tuple(running))))
    slots = 0
    for node in snapshot.nodes:
        load = held.get((node.pool, node.node))
        slots += (node.capacity.gpus - (load.gpus if load else 0)) // group.each.gpus
    return slots >= group.workers


def promised_start(head: GangView, snapshot: Snapshot) -> timedelta | None:
    """When the head starts if nobody else is let in: as soon as enough of those that run have ended."""
    running = [view for view in snapshot.gangs if view.state is GangState.RUNNING]
    for moment in sorted({timedelta(0), *(end_of(view) for view in running)}):
        if fits(head, snapshot, [view for view in running if end_of(view) > moment]):
            return moment
    return None


def let_in(snapshot: Snapshot) -> Snapshot:
    grants = {act.key.gang_id: act for act in plan(snapshot) if isinstance(act, Admit)}
    gangs = tuple(
        replace(
            view,
            state=GangState.RUNNING,
            placement=grants[view.request.gang_id].placement,
            state_since=snapshot.now,
            lease_expires_at=None,
        )
        if view.request.gang_id in grants
        else view
        for view in snapshot.gangs
    )
    return replace(snapshot, gangs=gangs)


def start_of(head: GangView, snapshot: Snapshot) -> timedelta | None:
    """When the head starts as everything is played to its end."""
    for _ in range(100):
        snapshot = let_in(snapshot)
        views = {view.request.gang_id: view for view in snapshot.gangs}
        if views[head.request.gang_id].state is GangState.RUNNING:
            return snapshot.now - NOON
        ends = [end_of(view) for view in snapshot.gangs if view.state is GangState.RUNNING]
        if not ends:
            return None
        now = NOON + min(ends)
        left = tuple(
            view for view in snapshot.gangs if view.state is not GangState.RUNNING or end_of(view) > now - NOON
        )
        snapshot = replace(snapshot, now=now, gangs=left)
    raise AssertionError("it never ends")


def first_is_never_delayed(seed: int) -> None:
    snapshot = a_busy_cluster(seed)
    waiting = [view for view in snapshot.gangs if view.state is GangState.QUEUED]
    empty = replace(snapshot, gangs=())
    could_come = [view for view in waiting if fits(view, empty, [])]
    if not could_come:
        return
    head = min(could_come, key=lambda view: place_in_line(view, snapshot.policy.order))
    promised, found = promised_start(head, snapshot), start_of(head, snapshot)
    assert promised is not None
    assert found is not None
    assert found <= promised, f"{head.request.gang_id} starts at {found} and not at {promised}"


@pytest.mark.parametrize("cases", EFFORT)
def test_first_in_line_starts_when_it_would_without_those_who_passed(cases: int) -> None:
    try_all(first_is_never_delayed, cases, seeds)


@pytest.mark.parametrize("cases", EFFORT)
def test_somebody_passes_somewhere_when_the_first_waits(cases: int) -> None:
    """Else the property above would hold of a plan that lets nobody past."""
    passed = []

    def look(seed: int) -> None:
        snapshot = a_busy_cluster(seed)
        line = sorted(
            (view for view in snapshot.gangs if view.state is GangState.QUEUED),
            key=lambda view: place_in_line(view, snapshot.policy.order),
        )
        grants = {act.key.gang_id for act in plan(snapshot) if isinstance(act, Admit)}
        passed.append(bool(line) and line[0].request.gang_id not in grants and bool(grants))

    try_all(look, cases, seeds)
    assert sum(passed) > cases / 20
