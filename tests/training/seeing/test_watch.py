"""What a run shows of itself, and that looking changes nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.training.day_partitions import a_spec
from tests.training.lone_run import run_alone
from tests.training.torchrun import Launches, wait_until
from training import heartbeat
from training.recipes.flights_spec import Partition
from training.seeing.requests import SeeingRequest
from training.seeing.step_clock import PARTS


def test_heartbeat_says_where_time_and_memory_go(tmp_path: Path, four_days: list[Partition]) -> None:
    run_alone(tmp_path, a_spec(four_days, workers=1))
    beat = heartbeat.read(tmp_path)
    assert beat is not None
    assert beat.rss_bytes is not None
    assert beat.rss_bytes > 50e6
    assert beat.gpu_peak_bytes is None
    assert beat.mfu is None
    assert beat.checkpoint_age_s is not None
    assert not list(tmp_path.glob("launch-*/stacks-*"))


def test_profile_and_corruption_check_answer_requests_and_change_no_loss(
    tmp_path: Path, four_days: list[Partition]
) -> None:
    """A bit flips in rank 1's weights at step 3: at 2 ranks the check can only say that they differ."""
    spec = a_spec(four_days, workers=2, checkpoint_every_steps=10_000, params={"epochs": 1000})
    launches = Launches(tmp_path / "run", spec)
    process = launches.start(PHALANX_FAIL_AT="1:3:flip")
    try:
        launch_dir = launches.run_dir / "launch-1"
        wait_until(lambda: step_of(launches.run_dir) > 100, process)
        SeeingRequest("now", steps=2).write(launches.run_dir, "profile")
        SeeingRequest("now").write(launches.run_dir, "corruption-check")
        wait_until(lambda: (launch_dir / "corruption-check.json").exists(), process)
        wait_until(lambda: len(list(launch_dir.glob("trace-rank*.json.gz"))) == 2, process)
        beat = heartbeat.read(launches.run_dir)
        assert beat is not None
        process.terminate()
        launches.finish(process)
    finally:
        process.kill()
    found = json.loads((launch_dir / "corruption-check.json").read_text())
    assert found["suspects"] == [0, 1]
    assert beat.step_seconds is not None
    assert set(beat.step_seconds) == {*PARTS, "other"}
    assert beat.straggler_scores is not None
    assert len(beat.straggler_scores) == 2
    trace = json.loads(gzip.decompress(next(launch_dir.glob("trace-rank1-*.json.gz")).read_bytes()))
    assert any("aten::" in str(event.get("name")) for event in trace["traceEvents"])
    assert "weights or gradients of the same step differ on rank(s) 0, 1 of 2" in launches.logs[0]


def step_of(run_dir: Path) -> int:
    beat = heartbeat.read(run_dir)
    return beat.step if beat else 0


@pytest.mark.parametrize("is_asked", [False, True])
def test_losses_are_the_same_bit_for_bit_when_a_check_was_asked_for(
    tmp_path: Path, four_days: list[Partition], is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.progress.SECONDS_BETWEEN", 0.0)
    asked = iter([False, is_asked, *[False] * 1000])
    monkeypatch.setattr("training.seeing.watch.Watch.is_check_asked", lambda _: next(asked))
    run = run_alone(tmp_path, a_spec(four_days, workers=1))
    assert (tmp_path / "launch-1" / "corruption-check.json").exists() == is_asked
    assert run.step == 24
    assert json.loads((tmp_path / "result.json").read_text())["losses_digest"] == undisturbed(tmp_path, four_days)


def undisturbed(folder: Path, days: list[Partition]) -> str:
    run_alone(folder / "undisturbed", a_spec(days, workers=1))
    digest: str = json.loads((folder / "undisturbed" / "result.json").read_text())["losses_digest"]
    return digest
