"""What is loaded, what is refused, and that nothing in a checkpoint is ever run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.training.checkpoints.saving import DIGEST, a_state, restored, save
from tests.training.checkpoints.states import differing, whole
from training import attempts
from training.checkpoint_manifest import COMMIT, Commit, commit, committed, describe_file, folder_of
from training.exit_codes import BadData


class Malice:
    """Unpickling it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def commit_again(run_dir: Path) -> Path:
    """Make the manifest fit the files as they are now, as whoever may write there could."""
    (folder,) = committed(run_dir)
    path = folder / COMMIT
    content = json.loads(path.read_text())
    content["files"] = [
        {"path": file.path, "bytes": file.bytes, "sha256": file.sha256}
        for file in (describe_file(folder, listed["path"]) for listed in content["files"])
    ]
    path.write_text(json.dumps(content))
    return folder


def test_all_of_it_is_the_same_after_a_restore(tmp_path: Path) -> None:
    state = a_state(tmp_path, 3)
    save(tmp_path, state)
    random_numbers = torch.get_rng_state()
    again = restored(tmp_path)
    assert differing(whole(again), whole(state)) == set()
    assert again.losses == state.losses
    assert again.reader.state() == state.reader.state()
    assert torch.equal(torch.get_rng_state(), random_numbers)


def test_a_state_from_before_the_first_step_has_no_optimizer_state(tmp_path: Path) -> None:
    save(tmp_path, a_state(tmp_path, 0))
    assert not restored(tmp_path).optimizer.state


@pytest.mark.parametrize("what", ["rank-0.safetensors", "index.json"])
def test_nothing_is_run_when_pickles_lie_where_the_state_should(tmp_path: Path, what: str) -> None:
    save(tmp_path, a_state(tmp_path, 1))
    (folder,) = committed(tmp_path)
    mark = tmp_path / "ran"
    (path,) = folder.glob(f"*-{what}")
    for name in (path.name, ".metadata", "__0_0.distcp"):
        (folder / name).write_bytes(pickle.dumps(Malice(mark)))
    commit_again(tmp_path)
    with pytest.raises(BadData, match="can't be loaded"):
        restored(tmp_path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists()  # so it would have


def test_nothing_is_run_when_torchs_own_pickled_metadata_lies_beside_a_good_checkpoint(tmp_path: Path) -> None:
    state = a_state(tmp_path, 1)
    save(tmp_path, state)
    (folder,) = committed(tmp_path)
    mark = tmp_path / "ran"
    (folder / ".metadata").write_bytes(pickle.dumps(Malice(mark)))
    assert differing(whole(restored(tmp_path)), whole(state)) == set()
    assert not mark.exists()


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    save(tmp_path, a_state(tmp_path, 1))
    (folder,) = committed(tmp_path)
    text = (folder / COMMIT).read_text()
    (folder / COMMIT).write_text(text.replace(f'"{DIGEST}"', '"another"'))
    with pytest.raises(BadData, match="it is of run spec another"):
        restored(tmp_path)


def test_a_newer_index_is_refused(tmp_path: Path) -> None:
    save(tmp_path, a_state(tmp_path, 1))
    (path,) = committed(tmp_path)[0].glob("*index.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))
    commit_again(tmp_path)
    with pytest.raises(BadData, match="schema 2 is newer than 1"):
        restored(tmp_path)


def test_a_checkpoint_of_an_earlier_trainer_is_loaded(tmp_path: Path) -> None:
    state = a_state(tmp_path, 2)
    folder = folder_of(tmp_path, 2)
    folder.mkdir(parents=True)
    named = state.model.state_dict()
    kept = {
        f"{name}|{kind}": value
        for name, parameter in state.model.named_parameters()
        for kind, value in state.optimizer.state[parameter].items()
    }
    save_file(named, folder / "attempt-1-model.safetensors")
    save_file(kept, folder / "attempt-1-optimizer.safetensors", metadata={"param_groups": "[]"})
    save_file({"losses": torch.tensor(state.losses, dtype=torch.float64)}, folder / "attempt-1-losses.safetensors")
    save_file({"rng": torch.get_rng_state()}, folder / "attempt-1-rank-0.safetensors")
    names = [f"attempt-1-{what}.safetensors" for what in ("model", "optimizer", "losses", "rank-0")]
    content = Commit(
        step=2,
        samples=state.reader.position,
        world_size=1,
        layout="whole",
        files=tuple(describe_file(folder, name) for name in names),
        reader_state=state.reader.state(),
        gang_id="gang",
        submission=1,
        attempt=1,
        created_at="2013-01-01T00:00:00+00:00",
        spec_digest=DIGEST,
    )
    commit(attempts.claim(tmp_path, 1), folder, content)
    assert differing(whole(restored(tmp_path)), whole(state)) == set()
