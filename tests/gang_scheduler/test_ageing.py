"""Who goes first after a long wait: one of a gang queue at a time, the one that was asked first, until it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gang_scheduler.board import Board
from gang_scheduler.gang import PlacedWorkers, Placement
from gang_scheduler.policy import Order
from gang_scheduler.snapshot import GangView
from tests.builders import NOON, a_gpu_gang, a_policy, a_running, a_snapshot, a_view, gpu_nodes

POLICY = a_policy(order=Order.SRSF, aged_after=timedelta(days=7))
DAY = timedelta(days=1)


def asked(name: str, *, days: float, waited: float | None = None, **fields: object) -> GangView:
    """A gang that was asked so many days ago and has waited since, or ran in between."""
    request = a_gpu_gang(f"{name}/r/t", **fields)  # type: ignore[arg-type]
    waited = days if waited is None else waited
    return a_view(request, submitted_at=NOON - days * DAY, state_since=NOON, queued_spent=waited * DAY)


def board_of(*gangs: GangView) -> Board:
    return Board.of(a_snapshot(*gangs, nodes=gpu_nodes(1), policy=POLICY))


def aged(board: Board) -> set[str]:
    board.age()
    everybody = [*board.entries.values(), *board.holding.values()]
    return {entry.request.gang_id.split("/")[0] for entry in everybody if entry.is_aged}


@pytest.mark.parametrize(
    ("gangs", "expected"),
    [
        pytest.param((asked("a", days=6), asked("b", days=6.9)), set(), id="nobody yet"),
        pytest.param((asked("a", days=8), asked("b", days=9)), {"b"}, id="who was asked first"),
        pytest.param((asked("a", days=8), asked("b", days=9, waited=6)), {"a"}, id="only waiting counts"),
        pytest.param(
            (replace(asked("a", days=9, waited=4), recovering_spent=4 * DAY),), {"a"}, id="after a fault it waits, too"
        ),
        pytest.param((asked("a", days=8), asked("b", days=9, gang_priority=1)), {"a", "b"}, id="one of each priority"),
        pytest.param((asked("a", days=8), asked("b", days=9, gang_queue="q")), {"a", "b"}, id="one of each queue"),
        pytest.param(
            (asked("a", days=8), replace(asked("b", days=9), is_held=True)), {"a"}, id="who is held takes no turn"
        ),
        pytest.param(
            (
                asked("a", days=8),
                replace(a_running(a_gpu_gang("b/r/t"), "n1"), submitted_at=NOON - 20 * DAY, queued_spent=9 * DAY),
            ),
            {"b"},
            id="the first runs: the next waits for its end",
        ),
        pytest.param(
            (asked("a", days=8), replace(a_running(a_gpu_gang("b/r/t"), "n1"), submitted_at=NOON - 20 * DAY)),
            {"a"},
            id="who runs and has hardly waited takes no turn",
        ),
    ],
)
def test_the_first_asked_of_those_that_waited_too_long_goes_first(
    gangs: tuple[GangView, ...], expected: set[str]
) -> None:
    assert aged(board_of(*gangs)) == expected


def test_it_is_the_next_ones_turn_when_the_first_is_over() -> None:
    board = board_of(asked("a", days=8), asked("b", days=9), asked("c", days=1))
    assert aged(board) == {"b"}
    board.drop(board.entries["b/r/t", 1])
    assert aged(board) == {"a"}
    board.drop(board.entries["a/r/t", 1])
    assert aged(board) == set()
    board.now_s += 6 * DAY.total_seconds()
    assert aged(board) == {"c"}


def test_the_turn_passes_to_who_was_asked_before_when_that_one_has_waited_too_long_as_well() -> None:
    board = board_of(asked("ran-long", days=30, waited=6), asked("b", days=9))
    assert aged(board) == {"b"}
    board.now_s += 2 * DAY.total_seconds()
    assert aged(board) == {"ran-long"}
    assert [entry.request.gang_id for _, entry in board.lines["default"]] == ["ran-long/r/t", "b/r/t"]


def test_an_entry_brings_no_mark_of_another_board_along() -> None:
    board = board_of(asked("a", days=8), asked("b", days=9))
    assert aged(board) == {"b"}
    anew = Board(board.now_s, gpu_nodes(2), policy=POLICY)
    for entry in board.entries.values():
        anew.add(entry)
    anew.drop(anew.entries["b/r/t", 1])
    assert aged(anew) == {"a"}


def test_who_is_put_in_place_after_a_long_wait_keeps_its_turn() -> None:
    board = board_of(asked("a", days=8), asked("b", days=9))
    first = board.entries["b/r/t", 1]
    anew = Board(board.now_s, gpu_nodes(2), policy=POLICY)
    for entry in board.entries.values():
        anew.add(entry)
    anew.place(first, Placement("gpu", (PlacedWorkers("n1", "trainer", 1),)))
    assert aged(anew) == {"b"}
