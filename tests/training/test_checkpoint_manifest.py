from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.attempts import claim
from training.checkpoint_manifest import Commit, commit, committed, describe_file, find, folder_of, prune, verify
from training.exit_codes import BadData, Superseded

FILES = {"model.safetensors": b"weights" * 20, "rank-0.safetensors": b"random", "rank-1.safetensors": b"numbers"}


def make_checkpoint(run_dir: Path, step: int) -> Path:
    folder = folder_of(run_dir, step)
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content + str(step).encode())
    commit(claim(run_dir, launch=1), folder, a_commit(folder, step))
    return folder


def a_commit(folder: Path, step: int) -> Commit:
    return Commit(
        step=step,
        samples=step * 10,
        world_size=2,
        layout="replicated",
        files=tuple(describe_file(folder, name) for name in FILES),
        reader_state={"position": step * 10},
        gang_id="g",
        submission=1,
        attempt=1,
        created_at="2013-01-01T00:00:00+00:00",
    )


def test_the_newest_is_found_when_all_verify(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 10)
    folder = make_checkpoint(tmp_path, 20)
    found = find([tmp_path])
    assert found is not None
    assert (found.folder, found.passed_over, found.commit) == (folder, (), a_commit(folder, 20))


def test_none_is_found_when_nothing_was_committed(tmp_path: Path) -> None:
    folder_of(tmp_path, 10).mkdir(parents=True)
    (folder_of(tmp_path, 10) / "model.safetensors").write_bytes(b"half")
    assert find([tmp_path, tmp_path / "no such folder"]) is None


def test_an_earlier_submission_is_looked_at_only_when_the_own_folder_has_no_commit(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "old", 30)
    found = find([tmp_path / "new", tmp_path / "old"])
    assert found is not None
    assert found.commit.step == 30
    make_checkpoint(tmp_path / "new", 10)
    found = find([tmp_path / "new", tmp_path / "old"])
    assert found is not None
    assert found.commit.step == 10


def test_nothing_is_committed_when_a_newer_claim_exists(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, 10)
    first = claim(tmp_path, launch=2)
    claim(tmp_path, launch=3)
    (folder / "commit.json").unlink()
    with pytest.raises(Superseded):
        commit(first, folder, a_commit(folder, 10))
    assert find([tmp_path]) is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from([*FILES, "commit.json"]), share=st.floats(0, 1, exclude_max=True), how=st.integers(0, 2))
def test_the_one_before_is_found_when_any_file_is_cut_flipped_or_gone(
    tmp_path_factory: pytest.TempPathFactory, name: str, share: float, how: int
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    make_checkpoint(run_dir, 10)
    damage(make_checkpoint(run_dir, 20) / name, share, how)
    if name == "commit.json" and how == 2:  # without a manifest it is no checkpoint at all, and so not a torn one
        assert [path.name for path in committed(run_dir)] == ["step-00000010"]
    found = find([run_dir])
    assert found is not None
    assert found.commit.step == 10


def test_it_is_an_error_and_no_fresh_start_when_no_checkpoint_verifies(tmp_path: Path) -> None:
    damage(make_checkpoint(tmp_path, 10) / "model.safetensors", 0.5, 0)
    damage(make_checkpoint(tmp_path, 20) / "commit.json", 0.5, 0)
    with pytest.raises(BadData, match="none of 2 committed checkpoints verifies") as caught:
        find([tmp_path])
    assert "step-00000010/model.safetensors" in str(caught.value)
    assert caught.value.exit_code == 65


def test_a_newer_manifest_is_refused_and_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 10)
    path = make_checkpoint(tmp_path, 20) / "commit.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))
    with pytest.raises(BadData, match="schema 2 is newer than 1"):
        find([tmp_path])


def test_the_newest_committed_are_kept_and_what_was_never_committed_goes(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        make_checkpoint(tmp_path, step)
    for step in (5, 35, 45):
        folder_of(tmp_path, step).mkdir()
    prune(tmp_path, keep=2, step=40)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-00000030",
        "step-00000040",
        "step-00000045",  # may be in the making
    ]
    verify(folder_of(tmp_path, 30))


def test_torn_checkpoints_beyond_it_do_not_count_when_a_run_went_on_from_an_older_one(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 50):
        make_checkpoint(tmp_path, step)
    for step in (30, 40, 50):
        (folder_of(tmp_path, step) / "model.safetensors").write_bytes(b"torn")
    make_checkpoint(tmp_path, 25)  # what the attempt that went on from 20 commits next
    prune(tmp_path, keep=2, step=25)
    found = find([tmp_path])
    assert found is not None
    assert found.commit.step == 25
    verify(folder_of(tmp_path, 20))
    assert not folder_of(tmp_path, 10).exists()


def damage(path: Path, share: float, how: int) -> None:
    """Cut the file off, change one byte of it, or remove it."""
    content = path.read_bytes()
    position = int(len(content.rstrip()) * share)
    if how == 0:
        path.write_bytes(content[:position])
    elif how == 1:
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x80]) + content[position + 1 :])
    else:
        path.unlink()
