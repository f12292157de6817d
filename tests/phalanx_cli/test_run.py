"""`phalanx run` in a process of its own, with real torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.embedded_stack.phalanx import wait_until
from training.recipes.language_model_spec import Corpus, LanguageModelParams, LanguageModelSpec
from training.text_folder import write_corpus

PHALANX = [sys.executable, "-m", "phalanx_cli.main"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    documents = [(f"page-{number}", f"some words about page {number}. " * 20) for number in range(40)]
    return Corpus(path=str(folder), digest=write_corpus(folder, documents).digest)


def write_spec(folder: Path, corpus: Corpus, *, workers: int = 1, steps: int = 6) -> Path:
    shape = {"sequence_length": 8, "layers": 1, "dim": 8, "heads": 1, "kv_heads": 1, "hidden": 8}
    params = LanguageModelParams(steps=steps, global_batch_size=4, **shape)
    spec = LanguageModelSpec(
        corpus=corpus, workers=workers, checkpoint_every_steps=1_000_000, code_version="test", params=params
    )
    path = folder / "run_spec.json"
    path.write_text(spec.to_json())
    return path


def phalanx(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PHALANX, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


def test_two_workers_train_to_the_end_and_the_model_is_named(corpus: Corpus, tmp_path: Path) -> None:
    path = write_spec(tmp_path, corpus, workers=2)
    done = phalanx("run", path, "--run-dir", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["result"]["steps"] == 6
    assert (Path(said["result"]["model_dir"]) / "manifest.json").exists()
    assert "step 6/6" in done.stderr


def test_it_stops_with_a_checkpoint_on_ctrl_c_and_goes_on_when_run_again(corpus: Corpus, tmp_path: Path) -> None:
    path = write_spec(tmp_path, corpus, steps=200_000)
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen([*PHALANX, "run", str(path)], stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "samples/s" in log.read_text(), "the first step", 120)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 75, log.read_text()
    finally:
        process.kill()
    assert "its checkpoint is committed. Run it again to go on" in log.read_text()
    (folder,) = tmp_path.glob("run-*")
    (saved,) = folder.glob("checkpoints/*/commit.json")
    again = tmp_path / "again"
    with again.open("w") as out:
        process = subprocess.Popen([*PHALANX, "run", str(path)], stdout=out, stderr=subprocess.STDOUT)
    try:
        step = json.loads(saved.read_bytes())["step"]
        wait_until(lambda: f"resumed from step {step}" in again.read_text(), "the second attempt", 120)
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 75, again.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "can't be read", id="no file"),
        pytest.param("{", "can't be read", id="no JSON"),
        pytest.param('{"recipe": "poems"}', "recipe", id="no such recipe"),
        pytest.param('{"recipe": "language_model", "corpus": 3}', "corpus", id="no corpus"),
    ],
)
def test_a_wrong_spec_is_told_before_anything_is_made(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "spec.json"
    if content is not None:
        path.write_text(content)
    done = phalanx("run", path)
    assert done.returncode == 64
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == (["spec.json"] if content is not None else [])


def test_bad_data_ends_it_with_its_own_code(corpus: Corpus, tmp_path: Path) -> None:
    gone = corpus.model_copy(update={"path": str(tmp_path / "gone")})
    done = phalanx("run", write_spec(tmp_path, gone))
    assert done.returncode == 65
    assert "the data is not what the run spec says" in done.stdout
