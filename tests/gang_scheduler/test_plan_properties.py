"""What holds for every snapshot; hypothesis looks for one where it doesn't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gang_scheduler.actions import Admit, Wait, WaitReason
from gang_scheduler.board import Board
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fitter
from gang_scheduler.gang import Budgets, ClockLimits, GangRequest, Placement, WorkerGroup
from gang_scheduler.gang_state import GangState
from gang_scheduler.placement import hold
from gang_scheduler.plan import plan
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, NodeView, Snapshot
from gang_scheduler.verdict import Cause
from tests.builders import NOON, a_gang, a_key, a_snapshot, a_verdict, a_view

LIVE = [state for state in GangState if state.value not in ("interrupted", "succeeded", "failed")]
POOLS = ("cpu", "gpu")

amounts = st.builds(
    Resources,
    cpus=st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0]),
    memory_gib=st.sampled_from([0.0, 4.0, 16.0]),
    gpus=st.integers(0, 2),
)
nodes = st.lists(
    st.builds(
        NodeView,
        pool=st.sampled_from(POOLS),
        node=st.sampled_from(["n1", "n2", "n3", "n4"]),
        capacity=st.builds(
            Resources,
            cpus=st.integers(0, 8).map(float),
            memory_gib=st.sampled_from([16.0, 64.0]),
            gpus=st.integers(0, 4),
        ),
        is_cordoned=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda node: (node.pool, node.node),
)
moments = st.integers(-300, 300).map(lambda seconds: NOON + timedelta(seconds=seconds))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A ledger that kept the rules so far: nothing is held that is not there."""
    there = draw(nodes)
    gangs: list[GangView] = []
    for number in range(draw(st.integers(0, 6))):
        groups = tuple(
            WorkerGroup(f"group-{index}", draw(st.integers(1, 4)), draw(amounts))
            for index in range(draw(st.integers(1, 2)))
        )
        request = a_gang(
            f"dag/run-{number}/train",
            gang_pool=draw(st.sampled_from(POOLS)),
            worker_groups=groups,
            gang_priority=draw(st.integers(-1, 1)),
            limits=ClockLimits(*(draw(st.sampled_from([None, timedelta(minutes=2)])) for _ in range(4))),
            budgets=Budgets(draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        )
        state = draw(st.sampled_from(LIVE))
        view = a_view(request, state, submitted_at=draw(moments), state_since=draw(moments))
        if view.holds_capacity:
            placement = place(request, there, gangs)
            if placement is None:
                view = a_view(request, GangState.QUEUED, submitted_at=view.submitted_at)
            else:
                view = replace(
                    view, placement=placement, lease_expires_at=draw(st.none() | moments), start_by=draw(moments)
                )
        else:
            view = replace(view, not_before=draw(st.none() | moments))
            if state is GangState.RECOVERING and draw(st.booleans()):
                view = replace(
                    view,
                    verdict=a_verdict(draw(st.sampled_from(list(Cause)))),
                    infrastructure_ends=draw(st.integers(1, 3)),
                )
        view = replace(view, stop_is_requested=draw(st.booleans()), is_released=draw(st.booleans()))
        gangs.append(view)
    return a_snapshot(*gangs, nodes=tuple(there))


def take(left: dict[str, Resources], request: GangRequest, placement: Placement) -> dict[str, Resources]:
    """Plain book-keeping, on purpose not the scheduler's own."""
    each = {group.name: group.each for group in request.worker_groups}
    after = dict(left)
    for placed in placement.workers:
        after[placed.node] = after[placed.node] - each[placed.group] * placed.workers
    return after


def free(there: Iterable[NodeView], gangs: Iterable[GangView], pool: str) -> dict[str, Resources]:
    left = {node.node: node.capacity for node in there if node.pool == pool}
    for view in gangs:
        if view.holds_capacity and view.placement is not None and view.request.gang_pool == pool:
            left = take(left, view.request, view.placement)
    return left


def place(request: GangRequest, there: Iterable[NodeView], gangs: Iterable[GangView] = ()) -> Placement | None:
    """Where the gang would go if it were alone in line; cordons count."""
    board = Board.of(a_snapshot(*(view for view in gangs if view.holds_capacity), nodes=tuple(there)))
    capacity = board.pools.get(request.gang_pool)
    fit = capacity and Fitter({}).fit(Entry(a_key(request.gang_id), request, 0.0), capacity)
    return hold(request, fit.spots, capacity) if fit and capacity else None


def request_of(snapshot: Snapshot, action: Admit) -> GangRequest:
    return next(view.request for view in snapshot.gangs if view.request.gang_id == action.key.gang_id)


def admitted(snapshot: Snapshot) -> list[tuple[GangRequest, Placement]]:
    return [(request_of(snapshot, act), act.placement) for act in plan(snapshot) if isinstance(act, Admit)]


many = settings(max_examples=150, deadline=None)


@given(snapshots())
@many
def test_no_node_is_ever_given_more_than_it_has(snapshot: Snapshot) -> None:
    for pool in POOLS:
        left = free(snapshot.nodes, snapshot.gangs, pool)
        for request, placement in admitted(snapshot):
            if placement.pool == pool:
                left = take(left, request, placement)
        assert all(Resources().fits_in(amount) for amount in left.values()), left


@given(snapshots())
@many
def test_gangs_are_admitted_whole_to_usable_nodes_of_their_pool(snapshot: Snapshot) -> None:
    usable = {(node.pool, node.node) for node in snapshot.nodes if not node.is_cordoned}
    for request, placement in admitted(snapshot):
        placed: Counter[str] = Counter()
        for part in placement.workers:
            placed[part.group] += part.workers
            assert (request.gang_pool, part.node) in usable
        assert dict(placed) == {group.name: group.workers for group in request.worker_groups}


@given(snapshots(), st.randoms(use_true_random=False))
@many
def test_order_in_the_snapshot_means_nothing(snapshot: Snapshot, random: object) -> None:
    gangs, there = list(snapshot.gangs), list(snapshot.nodes)
    random.shuffle(gangs)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    random.shuffle(there)  # type: ignore[attr-defined]
    assert plan(replace(snapshot, gangs=tuple(gangs), nodes=tuple(there))) == plan(snapshot)
    assert plan(snapshot) == plan(snapshot)


@given(snapshots())
@many
def test_every_gang_is_decided_once_at_most(snapshot: Snapshot) -> None:
    decided = Counter((act.key.gang_id, act.key.submission) for act in plan(snapshot))
    assert all(count == 1 for count in decided.values())


@given(snapshots())
@many
def test_nobody_passes_a_gang_that_fits_and_stands_before_it(snapshot: Snapshot) -> None:
    """Whoever is admitted, everybody before it in its pool's line is admitted too, or does not fit yet."""
    actions = {act.key.gang_id: act for act in plan(snapshot)}
    in_line = sorted(
        snapshot.gangs, key=lambda view: (-view.request.gang_priority, view.submitted_at, view.request.gang_id)
    )
    for pool in POOLS:
        line: Sequence[GangView] = [
            view for view in in_line if view.request.gang_pool == pool and not view.holds_capacity
        ]
        last = max(
            (place for place, view in enumerate(line) if isinstance(actions.get(view.request.gang_id), Admit)),
            default=-1,
        )
        for view in line[: max(last, 0)]:
            action = actions.get(view.request.gang_id)
            if isinstance(action, Wait):
                has_own_reason = action.reason in (WaitReason.BACKING_OFF, WaitReason.STOPPING_FIRST)
                would_fit = place(view.request, snapshot.nodes, snapshot.gangs)
                assert has_own_reason or would_fit is None or action.reason is WaitReason.PREEMPTING, action


@given(snapshots())
@many
def test_waiting_is_said_only_when_it_is_news(snapshot: Snapshot) -> None:
    waits = {act.key: act for act in plan(snapshot) if isinstance(act, Wait)}
    told = tuple(
        replace(view, wait_reason=waits[view.key].reason.value, wait_sentence=waits[view.key].sentence)
        if view.key in waits
        else view
        for view in snapshot.gangs
    )
    assert not [act for act in plan(replace(snapshot, gangs=told)) if isinstance(act, Wait)]
