"""Two ranks under the real torchrun: whatever ends an attempt, the run that resumes equals one that was never ended."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.training.day_partitions import a_spec
from tests.training.torchrun import Launches, wait_until, wait_until_gone
from training import heartbeat
from training.recipes.flights_spec import FlightsSpec, Partition

TOTAL_STEPS = 800  # long enough to be caught in the middle


@pytest.fixture(scope="module")
def spec(four_days: list[Partition]) -> FlightsSpec:
    return a_spec(four_days, checkpoint_every_steps=50, params={"epochs": 100})


@pytest.fixture(scope="module")
def undisturbed(spec: FlightsSpec, tmp_path_factory: pytest.TempPathFactory) -> Launches:
    """The same run with nothing happening to it."""
    launches = Launches(tmp_path_factory.mktemp("undisturbed"), spec)
    assert launches.run() == 0, launches.logs[-1]
    return launches


def assert_equal(launches: Launches, undisturbed: Launches) -> None:
    assert launches.result() == undisturbed.result()
    assert launches.losses() == undisturbed.losses()
    assert launches.weights() == undisturbed.weights()


def test_a_run_leaves_result_model_and_outcomes_when_nothing_happens(undisturbed: Launches) -> None:
    assert undisturbed.exit_codes() == [0, 0]
    assert undisturbed.result()["steps"] == TOTAL_STEPS
    assert undisturbed.losses().count("\n") == TOTAL_STEPS
    beat = heartbeat.read(undisturbed.run_dir)
    assert beat is not None
    assert (beat.phase, beat.step, beat.last_committed_step, beat.attempt) == ("done", TOTAL_STEPS, TOTAL_STEPS, 1)
    kept = sorted(path.name for path in (undisturbed.run_dir / "checkpoints").iterdir())
    assert kept == ["step-00000700", "step-00000750", "step-00000800"]
    assert "loss" in undisturbed.logs[-1]
    assert "ETA" in undisturbed.logs[-1]


def test_the_resumed_run_is_the_same_bit_for_bit_when_a_rank_was_killed(
    spec: FlightsSpec, undisturbed: Launches, tmp_path: Path
) -> None:
    launches = Launches(tmp_path, spec)
    assert launches.run(PHALANX_FAIL_AT="1:333:kill") != 0
    lost, killed = launches.outcome(0), launches.outcome(1)
    assert killed is None
    assert lost is not None
    assert lost["error"]["type"] == "PeerLost"
    assert launches.run() == 0, launches.logs[-1]
    assert "resumed from step 300 of attempt 1" in launches.logs[-1]
    assert_equal(launches, undisturbed)


def test_each_attempt_goes_on_where_the_last_one_stopped_when_it_is_told_to_stop_and_then_loses_its_agent(
    spec: FlightsSpec, undisturbed: Launches, tmp_path: Path
) -> None:
    launches = Launches(tmp_path, spec)
    process = launches.start()
    wait_until(lambda: step_of(tmp_path) > 60, process)
    process.send_signal(signal.SIGTERM)
    launches.finish(process)
    assert launches.exit_codes() == [75, 75], launches.logs[-1]
    stopped_at = max(int(path.parent.name[5:]) for path in (tmp_path / "checkpoints").glob("*/commit.json"))
    assert stopped_at == launches.losses().count("\n")  # that very step, not the last multiple of 50

    process = launches.start()
    wait_until(lambda: step_of(tmp_path) > stopped_at, process)
    rank_zero = int(json.loads((tmp_path / "attempts" / "2").read_text())["pid"])
    process.kill()
    launches.finish(process)
    wait_until_gone(rank_zero)

    assert launches.run() == 0, launches.logs[-1]
    assert_equal(launches, undisturbed)


def step_of(run_dir: Path) -> int:
    beat = heartbeat.read(run_dir)
    return beat.step if beat else 0
