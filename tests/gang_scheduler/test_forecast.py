"""When a gang will start, and what would become of one that is not asked for yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gang_scheduler.forecast import dry_run, forecast, positions
from gang_scheduler.pool import DailyWindow
from gang_scheduler.snapshot import GangView, Snapshot
from tests.builders import NOON, a_gpu_gang, a_queue, a_running, a_snapshot, a_view, gpu_nodes

MINUTE = timedelta(minutes=1)
HELD = a_running(a_gpu_gang("held/r/t", minutes=40), "n1", ran=10 * MINUTE)  # ends in 30 minutes


def start(snapshot: Snapshot, gang_id: str = "a/r/t") -> timedelta | None:
    found = forecast(snapshot, [gang_id])[gang_id].start
    return None if found is None else found - NOON


def waiting(name: str, waited: float = 1, **fields: object) -> GangView:
    return a_view(a_gpu_gang(f"{name}/r/t", **fields), waited=waited * MINUTE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gangs", "expected"),
    [
        pytest.param((waiting("a"),), 0, id="at once"),
        pytest.param((HELD, waiting("a")), 30, id="when the one that runs ends"),
        pytest.param((HELD, waiting("b", 9, minutes=60), waiting("a", minutes=60)), 90, id="after the one before it"),
        pytest.param((HELD, waiting("b", 9, minutes=60), waiting("a", minutes=60, gang_priority=1)), 0, id="preempts"),
        pytest.param((waiting("a", workers=9),), None, id="never"),
        pytest.param((a_running(a_gpu_gang("held/r/t"), "n1", ran=90 * MINUTE), waiting("a")), 90, id="by a guess"),
    ],
)
def test_start_is_foreseen_when_all_goes_on_as_it_is(gangs: tuple[GangView, ...], expected: float | None) -> None:
    found = start(a_snapshot(*gangs, nodes=gpu_nodes(1)))
    assert found == (None if expected is None else expected * MINUTE)


def test_position_and_guesses_are_told_when_a_start_is_foreseen() -> None:
    gangs = (a_running(a_gpu_gang("held/r/t"), "n1"), waiting("b", 9, minutes=60), waiting("a", minutes=60))
    found = forecast(a_snapshot(*gangs, nodes=gpu_nodes(1)), ["a/r/t", "b/r/t"])
    assert (found["b/r/t"].position, found["a/r/t"].position) == (1, 2)
    assert found["a/r/t"].guesses == 1


def test_places_are_those_of_all_queues_by_whose_turn_it_is() -> None:
    gangs = (HELD, waiting("a"), waiting("b", 9), waiting("c", gang_priority=1, gang_queue="other"))
    held = replace(waiting("d", 99), is_held=True)
    found = positions(a_snapshot(*gangs, held, nodes=gpu_nodes(1)))
    assert found == {"c/r/t": 1, "b/r/t": 2, "a/r/t": 3}


def test_held_gang_has_no_start_and_stands_in_nobodys_way_when_others_ask() -> None:
    held = a_view(a_gpu_gang("b/r/t", minutes=60), waited=9 * MINUTE, is_held=True)
    snapshot = a_snapshot(held, waiting("a", minutes=60), nodes=gpu_nodes(1))
    assert start(snapshot) == timedelta(0)
    assert "b/r/t" not in forecast(snapshot, ["b/r/t"])


def test_start_waits_for_the_window_when_the_queue_is_closed() -> None:
    queues = (a_queue("night", windows=(DailyWindow(22, 6),)),)
    snapshot = a_snapshot(waiting("a", gang_queue="night"), nodes=gpu_nodes(1), queues=queues)
    assert start(snapshot) == timedelta(hours=10)


def test_start_waits_for_the_back_off_when_there_is_one() -> None:
    gang = a_view(a_gpu_gang("a/r/t"), not_before=NOON + 5 * MINUTE)
    assert start(a_snapshot(gang, nodes=gpu_nodes(1))) == 5 * MINUTE


# --- a gang that is not asked for yet


def test_dry_run_says_where_when_it_would_start_now() -> None:
    found = dry_run(a_gpu_gang("new/r/t"), a_snapshot(nodes=gpu_nodes(1)))
    assert not found.never
    assert found.now is not None
    assert found.now.nodes == ("n1",)


def test_dry_run_says_when_and_why_when_it_would_wait() -> None:
    found = dry_run(a_gpu_gang("new/r/t"), a_snapshot(HELD, nodes=gpu_nodes(1)))
    assert (found.never, found.now) == ("", None)
    assert "held by held/r/t" in found.sentence
    assert found.forecast is not None
    assert found.forecast.start == NOON + 30 * MINUTE


def test_dry_run_says_never_when_it_is_too_large() -> None:
    found = dry_run(a_gpu_gang("new/r/t", workers=2), a_snapshot(nodes=gpu_nodes(1)))
    assert "Ask for fewer workers" in found.never


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(a_view(a_gpu_gang("b/r/t"), waited=9 * MINUTE, is_held=True), id="held"),
        pytest.param(a_view(a_gpu_gang("b/r/t"), waited=9 * MINUTE, not_before=NOON + MINUTE), id="backing off"),
    ],
)
def test_dry_run_lets_it_start_when_the_one_before_waits_for_its_own_reason(other: GangView) -> None:
    assert dry_run(a_gpu_gang("new/r/t"), a_snapshot(other, nodes=gpu_nodes(1))).now is not None


def test_dry_run_says_what_has_to_end_first_when_the_gang_runs_already() -> None:
    found = dry_run(HELD.request, a_snapshot(HELD, nodes=gpu_nodes(2)))
    assert found.sentence == "submission 1 of this gang has to end first"
    assert found.forecast is not None
    assert found.forecast.start == NOON + 30 * MINUTE


@pytest.mark.parametrize(("hour", "at"), [(12, 22), (22, 30), (23, 30), (3, 6)])
def test_edge_of_a_window_is_the_next_one_when_time_goes_on(hour: int, at: int) -> None:
    midnight = NOON.replace(hour=0)
    assert DailyWindow(22, 6).next_edge(midnight + hour * 60 * MINUTE) == midnight + at * 60 * MINUTE
