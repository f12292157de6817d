from __future__ import annotations

from pathlib import Path

import pytest

from gang_simulator.bound import mean_jct_bound_s
from gang_simulator.jobs import Job, read_jobs

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


@pytest.mark.parametrize(
    ("jobs", "gpus", "bound_s"),
    [
        pytest.param([Job("a", 0, 1, 100)], 8, 100, id="one job takes its duration"),
        pytest.param([Job("a", 5, 0, 0)], 8, 0, id="nothing takes nothing"),
        # SRPT on a machine of speed 1: 10, then 30; the mean of both ends.
        pytest.param([Job("a", 0, 1, 20), Job("b", 0, 1, 10)], 1, 20, id="two that share one GPU"),
        # Busy means 5 and 20; ends less half the durations: 5 + 5, 20 + 10.
        pytest.param([Job("a", 0, 1, 20), Job("b", 0, 1, 10)], 2, 15, id="with two GPUs, the durations hold"),
        pytest.param([], 8, 0, id="no job"),
    ],
)
def test_bound_is_the_largest_of_three_when_worked_out_by_hand(jobs: list[Job], gpus: int, bound_s: float) -> None:
    assert mean_jct_bound_s(jobs, gpus) == pytest.approx(bound_s)


@pytest.mark.parametrize(("trace", "published_s"), [("trace3", 126_934), ("trace4", 435_731)])
def test_bound_is_the_published_one_when_the_trace_is(trace: str, published_s: float) -> None:
    path = TRACES / "muri" / f"{trace}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    assert mean_jct_bound_s(read_jobs(path), 64) == pytest.approx(published_s, rel=0.001)
