"""A board that is kept through any sequence of events equals one made anew, and holds what plain book-keeping says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gang_scheduler.board import Board
from gang_scheduler.decide import decide
from gang_scheduler.decisions import Decisions
from gang_scheduler.entry import Entry
from gang_scheduler.gang_state import GangState
from gang_scheduler.kept_board import KeptBoard
from gang_scheduler.snapshot import GangView, Snapshot
from tests.builders import a_view
from tests.gang_scheduler.bookkeeping import holding, loads, used
from tests.gang_scheduler.clusters import seeds, snapshot_of, some_request
from tests.gang_scheduler.effort import FEW, try_all

Said = tuple[object, ...]


def told(decisions: Decisions, board: Board) -> dict[str, Said]:
    """What was decided about each gang."""
    said: dict[str, Said] = {}
    for admission in decisions.admitted:
        said[admission.entry.key.gang_id] = ("admit", admission.placement)
    for stop in decisions.stopped:
        made_for = stop.made_for and stop.made_for.key.gang_id
        said[stop.entry.key.gang_id] = ("stop", stop.reason, made_for)
    for (gang_id, _), entry in board.entries.items():
        obstacle = decisions.obstacle_of(entry)
        if gang_id not in said and obstacle is not None:
            other = obstacle.other and obstacle.other.key.gang_id
            said[gang_id] = ("wait", obstacle.reason, obstacle.pool, other, obstacle.detail)
    return said


def print_of(board: Board) -> dict[str, object]:
    """All that a pass looks at."""
    board.age()
    return {
        "free": {  # as text, which leaves out the last bits of sums of fractions
            (name, pool.nodes[number].node): str(pool.free_of(number))
            for name, pool in board.pools.items()
            for number in range(len(pool.nodes))
        },
        "shared": {name: (pool.storage_gib, pool.storage_gbps, pool.watts) for name, pool in board.pools.items()},
        "holding": {key[0]: entry.placement for key, entry in board.holding.items()},
        "lines": {name: [entry.key.gang_id for _, entry in line] for name, line in board.lines.items() if line},
        "aged": {key[0]: entry.is_aged for key, entry in (board.entries | board.holding).items()},
        "kinds": board.waiting_of,
        "related": board.related,
        "submissions": {gang_id: numbers for gang_id, numbers in board.submissions.items() if numbers},
    }


class BoardMachine(RuleBasedStateMachine):
    """Things happen to the board and to a list of gangs; the list is the truth."""

    @initialize(seed=seeds)
    def begin(self, seed: int) -> None:
        empty = replace(snapshot_of(seed), gangs=())
        self.world: Snapshot = replace(empty, nodes=tuple(replace(node, is_cordoned=False) for node in empty.nodes))
        self.lost = {node.node: node for node in self.world.nodes[:0]}
        self.board = Board.of(self.world)
        self.kept = KeptBoard()
        self.count = 0
        self.much_happens(seed)

    # --- the truth

    def view(self, gang_id: str) -> GangView:
        return next(view for view in self.world.gangs if view.request.gang_id == gang_id)

    def change(self, gang_id: str, **fields: object) -> None:
        gangs = [
            replace(view, **fields) if view.request.gang_id == gang_id else view  # type: ignore[arg-type]
            for view in self.world.gangs
        ]
        self.world = replace(self.world, gangs=tuple(gangs))

    def anew(self) -> Board:
        return Board.of(self.world)

    def one_that(self, chance: Random, *states: GangState) -> Entry | None:
        entries = sorted((self.board.entries | self.board.holding).items())
        fitting = [entry for _, entry in entries if entry.state in states]
        return chance.choice(fitting) if fitting else None

    # --- what happens

    @rule(seed=seeds)
    def ask(self, seed: int) -> None:
        request = some_request(Random(seed), self.count)
        self.count += 1
        view = a_view(request, submitted_at=self.world.now, state_since=self.world.now)
        self.world = replace(self.world, gangs=(*self.world.gangs, view))
        self.board.add(Entry.of(view, self.board.now_s))

    @rule(seconds=st.sampled_from([1, 30, 200, 4000, 700_000]))
    def time_passes(self, seconds: int) -> None:
        self.world = replace(self.world, now=self.world.now + timedelta(seconds=seconds))
        self.board.now_s = self.world.now.timestamp()

    @rule()
    def carry_out(self) -> None:
        decisions = decide(self.board)
        for stop in decisions.stopped:
            stop.entry.stops = True
            stop.entry.state = GangState.STOPPING
            self.change(stop.entry.key.gang_id, state=GangState.STOPPING)
        for admission in decisions.admitted:
            entry, view = admission.entry, self.view(admission.entry.key.gang_id)
            entry.state = GangState.RUNNING
            self.board.place(entry, admission.placement)
            self.change(
                view.request.gang_id,
                state=GangState.RUNNING,
                attempt=view.attempt + 1,
                placement=admission.placement,
                queued_spent=view.queued_spent + (self.world.now - view.state_since),
                state_since=self.world.now,
                lease_expires_at=None,
            )

    @rule(seed=seeds)
    def stops(self, seed: int) -> None:
        entry = self.one_that(Random(seed), GangState.STOPPING, GangState.RUNNING)
        if entry is None:
            return
        view = self.view(entry.key.gang_id)
        entry.state = GangState.QUEUED
        self.board.displace(entry)
        self.change(
            view.request.gang_id,
            state=GangState.QUEUED,
            placement=None,
            running_spent=view.running_spent + (self.world.now - view.state_since),
            state_since=self.world.now,
        )

    @rule(seed=seeds)
    def is_over(self, seed: int) -> None:
        entry = self.one_that(Random(seed), GangState.RUNNING, GangState.QUEUED, GangState.STOPPING)
        if entry is not None:
            self.board.drop(entry)
            gangs = tuple(view for view in self.world.gangs if view.request.gang_id != entry.key.gang_id)
            self.world = replace(self.world, gangs=gangs)

    @rule(seed=seeds)
    def node_changes(self, seed: int) -> None:
        """One is lost or comes back, with what is said to run on it; or it is cordoned, or in use again."""
        chance, nodes = Random(seed), self.world.nodes
        if self.lost and chance.random() < 0.5:
            nodes = (*nodes, self.lost.pop(chance.choice(sorted(self.lost))))
        elif nodes and chance.random() < 0.5:
            node = chance.choice(nodes)
            self.lost[node.node] = node
            nodes = tuple(other for other in nodes if other is not node)
        elif nodes:
            node = chance.choice(nodes)
            nodes = (
                *(other for other in nodes if other is not node),
                replace(node, is_cordoned=not node.is_cordoned),
            )
        self.world = replace(self.world, nodes=nodes)
        self.board = self.anew()

    @rule(seed=seeds)
    def much_happens(self, seed: int) -> None:
        """A dozen of the above, each checked: the single ones alone seldom fill a cluster."""
        chance = Random(seed)
        for _ in range(12):
            event = chance.choice([self.ask, self.ask, self.ask, self.ask, self.stops, self.is_over, None, None])
            if event is None:
                self.carry_out()
                self.time_passes(chance.choice([1, 30, 200, 4000]))
            else:
                event(chance.randrange(2**32))
            self.board_equals_one_made_anew()
            self.decisions_equal_those_of_a_board_made_anew()
            self.what_is_free_and_held_adds_up()
            self.kept_board_equals_one_made_anew()

    # --- what holds

    @invariant()
    def board_equals_one_made_anew(self) -> None:
        if hasattr(self, "board"):
            assert print_of(self.board) == print_of(self.anew())

    @invariant()
    def kept_board_equals_one_made_anew(self) -> None:
        if not hasattr(self, "board"):
            return
        waiting = [view.gang_key for view in self.world.gangs if not view.holds_capacity]
        aside = [key for key in waiting if Random(f"{key}{self.world.now}").random() < 0.1]
        anew = Board.of(self.world, without=aside)
        with self.kept.of(self.world, without=aside) as kept:
            assert print_of(kept) == print_of(anew)
            assert told(decide(kept), kept) == told(decide(anew), anew)

    @invariant()
    def decisions_equal_those_of_a_board_made_anew(self) -> None:
        if hasattr(self, "board"):
            before, anew = print_of(self.board), self.anew()
            assert told(decide(self.board), self.board) == told(decide(anew), anew)
            assert print_of(self.board) == before, "a pass leaves the board as it was"

    @invariant()
    def what_is_free_and_held_adds_up(self) -> None:
        if not hasattr(self, "board"):
            return
        held = loads(holding(self.world))
        for pool in self.board.pools.values():
            for number, node in enumerate(pool.nodes):
                load, free = held.get((node.pool, node.node)), pool.free_of(number)
                if load is None:
                    assert str(free) == str(node.capacity)
                    continue
                assert not load.over(node.capacity)
                shared = [spent for spent in load.thousandths.values() if spent]
                assert free.cpus == pytest.approx(node.capacity.cpus - load.cpus)
                assert free.memory_gib == pytest.approx(node.capacity.memory_gib - load.memory_gib)
                assert free.scratch_gib == pytest.approx(node.capacity.scratch_gib - load.scratch_gib)
                assert free.gpus == node.capacity.gpus - load.gpus - len(shared)
                assert free.gpu_share == pytest.approx(sum(1000 - spent for spent in shared) / 1000)
                for profile, count in node.capacity.mig:
                    assert dict(free.mig)[profile] == count - load.mig[profile]
        for (queue, name, resource), amount in used(holding(self.world)).items():
            assert self.board.quotas.used(queue, (name, resource)) == pytest.approx(amount)

    @invariant()
    def every_gang_is_somewhere_once(self) -> None:
        if hasattr(self, "board"):
            waiting = {view.request.gang_id for view in self.world.gangs if view.placement is None}
            running = {view.request.gang_id for view in self.world.gangs if view.placement is not None}
            assert {key[0] for key in self.board.entries} == waiting
            assert {key[0] for key in self.board.holding} == running
            assert sorted(e.key.gang_id for line in self.board.lines.values() for _, e in line) == sorted(waiting)


def board_stays_true(seed: int) -> None:
    machine = BoardMachine()
    machine.begin(seed)
    for number in range(3):
        machine.much_happens(seed + number)


@pytest.mark.parametrize("cases", [pytest.param(40, id="few"), pytest.param(800, id="many", marks=pytest.mark.slow)])
def test_board_stays_true_through_a_long_life(cases: int) -> None:
    try_all(board_stays_true, cases, seeds)


@pytest.mark.parametrize("cases", [pytest.param(20, id="few"), pytest.param(300, id="many", marks=pytest.mark.slow)])
def test_board_stays_true_whatever_happens(cases: int) -> None:
    effort = settings(
        max_examples=cases,
        stateful_step_count=20,
        deadline=None,
        database=None,
        derandomize=cases <= FEW,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(BoardMachine, settings=effort)
