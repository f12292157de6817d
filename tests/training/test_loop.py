"""The loop as a gang of one: what it leaves, how it resumes, and how it ends when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.day_partitions import a_spec, flights_of, write_manifest
from tests.training.lone_run import run_alone
from training import exported_model, loop
from training.checkpoint_manifest import committed
from training.exit_codes import BadData, BadSpec, Interrupted, Superseded
from training.fault_injection import FaultInjection, InjectedFault
from training.recipes.flights import Flights
from training.recipes.flights_spec import FlightsSpec, ModelReference, Partition
from training.stop_request import StopRequest

STEPS = 24  # three epochs over 800 flights in batches of 100


@pytest.fixture(scope="module")
def spec(four_days: list[Partition]) -> FlightsSpec:
    return a_spec(four_days, workers=1)


@pytest.fixture(scope="module")
def undisturbed(spec: FlightsSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("undisturbed")
    run_alone(run_dir, spec)
    return run_dir


def result_of(run_dir: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    return {name: value for name, value in content.items() if name != "model_dir"}


def assert_equal(run_dir: Path, other: Path) -> None:
    assert result_of(run_dir) == result_of(other)
    for name in ("losses.jsonl", "model/model.safetensors", "model/model.json"):
        assert (run_dir / name).read_bytes() == (other / name).read_bytes()


def fail_once(run_dir: Path, spec: FlightsSpec, step: int) -> None:
    with pytest.raises(InjectedFault):
        run_alone(run_dir, spec, fault=FaultInjection(rank=0, step=step, how="raise"))


def truncate(name: str) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        (path,) = checkpoint.glob(f"*{name}*")
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def test_the_loss_falls_and_every_step_is_recorded(undisturbed: Path) -> None:
    losses = [json.loads(line) for line in (undisturbed / "losses.jsonl").read_text().splitlines()]
    assert [each["step"] for each in losses] == list(range(1, STEPS + 1))
    assert result_of(undisturbed)["steps"] == STEPS
    assert result_of(undisturbed)["final_loss"] == losses[-1]["loss"]


def test_two_runs_of_a_spec_are_equal(spec: FlightsSpec, undisturbed: Path, tmp_path: Path) -> None:
    run_alone(tmp_path, spec)
    assert_equal(tmp_path, undisturbed)


def test_another_seed_gives_another_run(spec: FlightsSpec, undisturbed: Path, tmp_path: Path) -> None:
    run_alone(tmp_path, spec.model_copy(update={"seed": spec.seed + 1}))
    assert result_of(tmp_path)["losses_digest"] != result_of(undisturbed)["losses_digest"]


@pytest.mark.parametrize("step", [3, 5, 14, 24])
def test_the_resumed_run_is_equal_when_it_failed_at_any_step(
    spec: FlightsSpec, undisturbed: Path, tmp_path: Path, step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_once(tmp_path, spec, step)
    run_alone(tmp_path, spec)
    last = (step - 1) // 5 * 5
    said = f"resumed from step {last} of attempt 1" if last else "starts from scratch"
    assert f"attempt 2: {said}" in capsys.readouterr().out
    assert_equal(tmp_path, undisturbed)


@pytest.mark.parametrize("name", ["rank-0.safetensors", "index", "commit"])
def test_the_run_is_equal_when_it_resumes_past_a_torn_checkpoint(
    spec: FlightsSpec, undisturbed: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_once(tmp_path, spec, 14)
    truncate(name)(committed(tmp_path)[0])
    run_alone(tmp_path, spec)
    out = capsys.readouterr().out
    assert "warning: passed over a torn checkpoint" in out
    assert "resumed from step 5 of attempt 1" in out
    assert_equal(tmp_path, undisturbed)


def test_it_ends_as_bad_data_and_not_from_scratch_when_every_checkpoint_is_torn(
    spec: FlightsSpec, tmp_path: Path
) -> None:
    fail_once(tmp_path, spec, 14)
    for folder in committed(tmp_path):
        truncate("index")(folder)
    with pytest.raises(BadData, match="none of 2 committed checkpoints verifies"):
        run_alone(tmp_path, spec)
    assert not (tmp_path / "result.json").exists()


def test_a_new_submission_resumes_an_earlier_ones_checkpoint(
    spec: FlightsSpec, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_once(tmp_path / "one", spec, 14)
    run_alone(tmp_path / "two", spec, resume_from=tmp_path / "one")
    assert "resumed from step 10 of an earlier submission" in capsys.readouterr().out
    assert_equal(tmp_path / "two", undisturbed)


def test_an_earlier_submission_of_another_spec_is_refused(spec: FlightsSpec, tmp_path: Path) -> None:
    fail_once(tmp_path / "one", spec, 14)
    other = spec.model_copy(update={"seed": 99})
    with pytest.raises(BadData, match="it is of run spec"):
        run_alone(tmp_path / "two", other, resume_from=tmp_path / "one")


def test_a_finished_run_only_writes_its_result_again_when_it_is_run_again(
    spec: FlightsSpec, undisturbed: Path, tmp_path: Path
) -> None:
    run_alone(tmp_path, spec)
    (tmp_path / "result.json").unlink()
    (tmp_path / "model" / "model.safetensors").unlink()
    run_alone(tmp_path, spec)
    assert_equal(tmp_path, undisturbed)


def test_a_checkpoint_is_left_when_it_is_told_to_stop_before_its_first_step(
    spec: FlightsSpec, undisturbed: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # the second time that checkpoint is there already
        with pytest.raises(Interrupted, match="at step 0"):
            run_alone(tmp_path, spec, stop=StopRequest(is_made=True))
        assert [path.name for path in committed(tmp_path)] == ["step-00000000"]
    run_alone(tmp_path, spec)
    assert_equal(tmp_path, undisturbed)


def test_nothing_is_committed_when_a_newer_attempt_has_claimed_the_folder(
    spec: FlightsSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claim_and_train(self: loop.Run, *given: Any) -> None:
        (tmp_path / "attempts" / "2").write_text("{}")
        train(self, *given)

    train = loop.Run._train
    monkeypatch.setattr(loop.Run, "_train", claim_and_train)
    with pytest.raises(Superseded):
        run_alone(tmp_path, spec)
    assert committed(tmp_path) == []
    assert not (tmp_path / "result.json").exists()


def test_it_ends_as_a_program_error_when_the_loss_is_no_number(
    spec: FlightsSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flights, "learning_rate_at", lambda *_: float("inf"))
    with pytest.raises(loop.NonFiniteLoss, match="Try a lower") as caught:
        run_alone(tmp_path, spec)
    assert caught.value.exit_code == 70


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"workers": 2}, "workers = 2, but torchrun started 1 ranks"),
        ({"params": {"global_batch_size": 2402}}, "fill no batch of params.global_batch_size = 2402"),
    ],
    ids=["workers", "batch"],
)
def test_a_spec_that_the_data_or_the_gang_can_not_fulfil_is_a_bad_spec(
    four_days: list[Partition], tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(BadSpec, match=expected):
        run_alone(tmp_path, a_spec(four_days, **{"workers": 1} | changes))


def test_a_changed_schema_ends_it_before_anything_is_committed(own_days: list[Partition], tmp_path: Path) -> None:
    spec = a_spec(own_days, workers=1)
    path = Path(own_days[0].manifest)
    write_manifest(path.parent, own_days[0].date, flights_of(own_days[0].date, 10))
    with pytest.raises(BadData, match="were built anew since"):
        run_alone(tmp_path / "run", spec)
    assert not (tmp_path / "run" / "checkpoints").exists()


def warm(four_days: list[Partition], champion: Path, **changes: Any) -> FlightsSpec:
    """A run over the last two days, from the champion's weights."""
    manifest = json.loads((champion / "model" / "manifest.json").read_text())
    reference = ModelReference(model_id="m", path=str(champion / "model"), digest=manifest["digest"])
    return a_spec(four_days[2:], workers=1, warm_start=reference, **changes)


def test_a_warm_start_keeps_the_champions_encoder_and_adds_what_is_new(
    four_days: list[Partition], tmp_path: Path
) -> None:
    run_alone(tmp_path / "old", a_spec(four_days[:1], workers=1))
    run_alone(tmp_path / "new", warm(four_days, tmp_path / "old"))
    old, new = (exported_model.load(tmp_path / name / "model") for name in ("old", "new"))
    assert new.card.encoder.scales == old.card.encoder.scales
    known = old.card.encoder.vocabularies["carrier_flight"]
    assert new.card.encoder.vocabularies["carrier_flight"][: len(known)] == known
    assert len(new.card.encoder.vocabularies["carrier_flight"]) > len(known)
    assert new.card.warm_start_model_id == "m"
    assert new.weights["linear.weight"].shape == old.weights["linear.weight"].shape


def test_a_warm_start_begins_at_a_share_of_the_champions_weights(four_days: list[Partition], tmp_path: Path) -> None:
    run_alone(tmp_path / "old", a_spec(four_days[:2], workers=1))
    with pytest.raises(Interrupted):
        run_alone(tmp_path / "new", warm(four_days, tmp_path / "old"), stop=StopRequest(is_made=True))
    (checkpoint,) = committed(tmp_path / "new")
    begun = load_file(checkpoint / "attempt-1-rank-0.safetensors")
    champion = exported_model.load(tmp_path / "old" / "model").weights
    for name, weight in champion.items():
        if name != "linear.bias":
            assert torch.equal(begun[f"model.{name}"][: len(weight)], weight / 2)


def test_a_champion_is_refused_when_it_is_changed_of_other_size_or_from_the_future(
    four_days: list[Partition], tmp_path: Path
) -> None:
    run_alone(tmp_path / "old", a_spec(four_days[:2], workers=1))
    with pytest.raises(
        BadSpec, match="params ask for embedding_dim = 4, hidden = 16; the model to start from has 4 and 8"
    ):
        run_alone(tmp_path / "a", warm(four_days, tmp_path / "old", params={"hidden": 16}))
    early = warm(four_days, tmp_path / "old").model_copy(
        update={"partitions": tuple(four_days[:1]), "data_until": four_days[0].date + timedelta(days=1)}
    )
    with pytest.raises(BadSpec, match="'m' has seen days until 2013-01-03"):
        run_alone(tmp_path / "b", early)
    spec = warm(four_days, tmp_path / "old")
    weights = tmp_path / "old" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with pytest.raises(BadData, match=f"model file {weights}: sha256"):
        run_alone(tmp_path / "c", spec)
