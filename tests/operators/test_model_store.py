from pathlib import Path

import pytest

from operators.model_store import keep_model


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "model"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_model_outlives_its_run_folder(exported: Path, tmp_path: Path) -> None:
    kept = keep_model(exported, tmp_path / "models" / "flights", "abc")
    (exported / "model.safetensors").unlink()
    assert kept == tmp_path / "models" / "flights" / "abc"
    assert (kept / "model.safetensors").read_bytes() == b"weights"


def test_a_model_that_is_kept_already_stays_as_it_is(exported: Path, tmp_path: Path) -> None:
    kept = keep_model(exported, tmp_path / "models", "abc")
    (exported / "model.safetensors").write_bytes(b"other")
    assert (keep_model(exported, tmp_path / "models", "abc") / "model.safetensors").read_bytes() == b"weights"
    assert [path.name for path in kept.parent.iterdir()] == ["abc"]


def test_nothing_is_left_when_the_model_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        keep_model(tmp_path / "none", tmp_path / "models", "abc")
    assert list((tmp_path / "models").iterdir()) == []
