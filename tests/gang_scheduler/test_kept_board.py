"""The board that is kept from plan to plan says what a new one would, whatever has changed in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gang_scheduler.actions import Admit
from gang_scheduler.board import Board
from gang_scheduler.decide import decide
from gang_scheduler.gang_state import GangState
from gang_scheduler.kept_board import RENEWED_AFTER, KeptBoard
from gang_scheduler.plan import plan
from gang_scheduler.snapshot import Snapshot
from tests.builders import NOON, a_gpu_gang, a_policy, a_queue, a_quota, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.test_board import print_of, told

RUNS = a_running(a_gpu_gang("runs/r/t", minutes=60), "n1")
STARTS = a_running(a_gpu_gang("starts/r/t", minutes=60), "n2", state=GangState.STARTING)
WAITS = a_view(a_gpu_gang("waits/r/t", gpus=4, minutes=30))
FIRST = a_snapshot(
    RUNS, STARTS, WAITS, nodes=gpu_nodes(2), queues=(a_queue("default", a_quota(16)),), now=NOON + timedelta(hours=1)
)
LATER = replace(FIRST, now=NOON + timedelta(hours=2))
ASKED = a_view(a_gpu_gang("asked/r/t", minutes=5))
HELD_BACK = WAITS.gang_key


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(LATER, id="only time has passed"),
        pytest.param(replace(LATER, gangs=(STARTS, WAITS)), id="one has ended"),
        pytest.param(replace(LATER, gangs=(*FIRST.gangs, ASKED)), id="one was asked for"),
        pytest.param(replace(LATER, gangs=(replace(RUNS, state=GangState.STOPPING), STARTS, WAITS)), id="one stops"),
        pytest.param(
            replace(LATER, gangs=(a_view(RUNS.request, attempt=1, running_spent=timedelta(hours=1)), STARTS, WAITS)),
            id="one waits again",
        ),
        pytest.param(
            replace(LATER, gangs=(replace(RUNS, lease_expires_at=NOON, saved_at=NOON), STARTS, WAITS)),
            id="one was heard of and has saved",
        ),
        pytest.param(replace(LATER, nodes=gpu_nodes(3)), id="a node has come"),
        pytest.param(
            replace(LATER, nodes=(replace(FIRST.nodes[0], is_cordoned=True), FIRST.nodes[1])), id="a node is cordoned"
        ),
        pytest.param(replace(LATER, queues=(a_queue("default", a_quota(8)),)), id="a quota is less"),
        pytest.param(replace(LATER, policy=a_policy(stretch=1.0)), id="another policy"),
        pytest.param(replace(FIRST, now=NOON), id="time goes back"),
    ],
)
@pytest.mark.parametrize("aside", [(), (HELD_BACK,)], ids=["nobody aside", "one aside"])
def test_kept_board_equals_a_new_one_when_the_world_has_changed(later: Snapshot, aside: tuple[tuple[str, int]]) -> None:
    kept = KeptBoard()
    with kept.of(FIRST):
        pass
    with kept.of(later, without=aside) as board:
        anew = Board.of(later, without=aside)
        assert print_of(board) == print_of(anew)
        assert {key: (entry.started_s, entry.saved_s) for key, entry in board.holding.items()} == {
            key: (entry.started_s, entry.saved_s) for key, entry in anew.holding.items()
        }
        short = board.quotas.short("default", "gpu", {"gpus": 1.0})
        assert short == anew.quotas.short("default", "gpu", {"gpus": 1.0})
        assert told(decide(board), board) == told(decide(anew), anew)


def test_another_board_is_given_out_when_the_kept_one_is_in_use() -> None:
    kept = KeptBoard()
    with kept.of(FIRST) as one, kept.of(FIRST) as other:
        assert one is not other
        assert print_of(one) == print_of(other)


def test_board_is_kept_when_only_gangs_have_changed() -> None:
    kept = KeptBoard()
    with kept.of(FIRST) as one:
        pass
    with kept.of(replace(LATER, gangs=(RUNS,))) as other:
        assert one is other


def test_board_is_made_anew_when_its_user_has_failed() -> None:
    kept = KeptBoard()
    with pytest.raises(ZeroDivisionError), kept.of(FIRST) as spoilt:
        raise ZeroDivisionError
    with kept.of(FIRST) as board:
        assert board is not spoilt


def test_board_is_made_anew_when_it_has_been_kept_for_long() -> None:
    kept, boards = KeptBoard(), set()
    for _ in range(RENEWED_AFTER + 2):
        with kept.of(FIRST) as board:
            boards.add(board)
    assert len(boards) == 2


def test_plans_agree_when_gangs_were_planned_for_before() -> None:
    plan(FIRST)
    ended = replace(LATER, gangs=(STARTS, WAITS))
    admitted = [action for action in plan(ended) if isinstance(action, Admit)]
    assert [action.key.gang_id for action in admitted] == ["waits/r/t"]
    assert plan(ended) == plan(ended)
