from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.lone_run import run_alone
from tests.training.torchrun import Launches
from training import sample_ledger
from training.exit_codes import BadData, ExitCode
from training.fault_injection import FaultInjection, InjectedFault
from training.reader import Reader
from training.recipes.language_model_spec import Corpus, LanguageModelParams, LanguageModelSpec
from training.sample_ledger import Epoch, Opening, SampleLedger, epochs_of, read
from training.text_folder import write_corpus

SHAPE = {"sequence_length": 32, "layers": 1, "dim": 8, "heads": 1, "kv_heads": 1, "hidden": 8}
EXACT = 1e-6  # of the loss: at 5.4 one step was 1.4e-6 off, three roundings of float32


class Made:
    """Attempts, made up, at a run over `samples` in batches of `batch`."""

    def __init__(self, run_dir: Path, samples: int, batch: int) -> None:
        self.run_dir, self.samples, self.batch, self.attempts = run_dir, samples, batch, 0

    def attempt(self, ranks: int, after: int, saved: int, committed: int) -> None:
        """One on so many ranks, from the step `after`, whose last begun and last committed checkpoints are these."""
        self.attempts += 1
        for rank in range(ranks):
            reader = Reader(self.samples, self.batch, 0, rank, ranks)
            reader.restore(reader.state() | {"position": after * self.batch})
            opening = Opening(self.attempts, rank, ranks, after, self.samples, self.batch)
            ledger = SampleLedger(self.run_dir, opening)
            for step in range(after + 1, saved + 1):
                ledger.note(step, reader.next_batch())
            ledger.save()
            if committed > after:
                ledger.note_commit(committed)


@settings(deadline=None, max_examples=40)
@given(
    samples=st.integers(1, 40),
    batch=st.integers(5, 16),
    attempts=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=5),
)
def test_every_epoch_is_exact_when_attempts_on_any_ranks_lose_what_they_had_not_committed(
    tmp_path_factory: pytest.TempPathFactory, samples: int, batch: int, attempts: list[tuple[int, int, int]]
) -> None:
    made, after = Made(tmp_path_factory.mktemp("run"), samples, batch), 0
    for ranks, committed, lost in attempts:
        made.attempt(ranks, after, after + committed + lost, after + committed)
        after += committed
    epochs = list(epochs_of(read(made.run_dir)))
    assert sum(epoch.seen for epoch in epochs) == after * batch
    assert [(epoch.doubles, epoch.missing) for epoch in epochs] == [(0, 0)] * len(epochs)
    assert [epoch.is_whole for epoch in epochs[:-1]] == [True] * (len(epochs) - 1)


def test_a_step_that_a_rank_did_not_note_is_missing(tmp_path: Path) -> None:
    made = Made(tmp_path, samples=12, batch=6)
    made.attempt(ranks=2, after=0, saved=2, committed=2)
    Opening(1, 1, 2, 0, 12, 6).path(tmp_path).unlink()
    assert list(epochs_of(read(tmp_path))) == [Epoch(0, seen=6, doubles=0, missing=6, is_whole=True)]
    assert sample_ledger.main([str(tmp_path)]) == ExitCode.PROGRAM_ERROR


def test_a_sample_that_came_twice_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = SampleLedger(tmp_path, Opening(1, 0, 1, 0, 3, 3))
    ledger.note(1, np.array([2, 0, 2]))
    ledger.save()
    ledger.note_commit(1)
    assert sample_ledger.main([str(tmp_path)]) == ExitCode.PROGRAM_ERROR
    assert capsys.readouterr().out == "epoch 0: 3 samples, 1 doubles, 1 missing\n"


def test_what_was_written_before_counts_when_the_end_of_a_file_is_torn(tmp_path: Path) -> None:
    made = Made(tmp_path, samples=12, batch=6)
    made.attempt(ranks=1, after=0, saved=2, committed=2)
    with Opening(1, 0, 1, 0, 12, 6).path(tmp_path).open("ab") as file:
        file.write(np.array([3, 6, 1], "<u4").tobytes() + b"\x01")
    assert list(epochs_of(read(tmp_path))) == [Epoch(0, seen=12, doubles=0, missing=0, is_whole=True)]


@pytest.mark.parametrize("content", [None, b"not JSON\n"])
def test_a_folder_without_a_ledger_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "samples").mkdir()
        (tmp_path / "samples" / "attempt-1-reader-0").write_bytes(content)
    with pytest.raises(BadData, match="sample ledger"):
        read(tmp_path)
    assert sample_ledger.main([str(tmp_path)]) == ExitCode.BAD_DATA


def test_more_samples_than_there_are_numbers_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="4294967296 samples are more"):
        SampleLedger(tmp_path, Opening(1, 0, 1, 0, 2**32, 3))


def a_spec(corpus: Corpus, workers: int) -> LanguageModelSpec:
    given: dict[str, Any] = {"corpus": corpus, "workers": workers, "seed": 5, "code_version": "test"}
    params = LanguageModelParams(steps=20, global_batch_size=10, **SHAPE)
    return LanguageModelSpec(**given, params=params, checkpoint_every_steps=4, sample_ledger=True)


def losses_in(run_dir: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run_dir / "losses.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    documents = [(f"page-{number}", f"the quick brown fox number {number} jumps. " * 5) for number in range(20)]
    return Corpus(path=str(folder), digest=write_corpus(folder, documents).digest)


def test_samples_are_exact_when_a_process_failed_between_checkpoints(tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(InjectedFault):
        run_alone(tmp_path, a_spec(corpus, 1), fault=FaultInjection(rank=0, step=6, how="raise"))
    assert sum(epoch.seen for epoch in epochs_of(read(tmp_path))) == 4 * 10
    run_alone(tmp_path, a_spec(corpus, 1))
    epochs = list(epochs_of(read(tmp_path)))
    assert sum(epoch.seen for epoch in epochs) == 20 * 10
    assert {(epoch.doubles, epoch.missing) for epoch in epochs} == {(0, 0)}


@pytest.mark.slow
def test_samples_are_exact_and_losses_those_of_one_process_when_4_then_2_then_3_ranks_train(
    tmp_path: Path, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of ten samples, four ranks take 2, 3, 2 and 3, three ranks 3, 3 and 4."""
    run_alone(tmp_path / "one", a_spec(corpus, 1))
    for attempt, (workers, fault) in enumerate([(4, "3:6:kill:1"), (2, "1:14:kill:2"), (3, "")]):
        launches = Launches(tmp_path / "gang", a_spec(corpus, workers), count=attempt)
        assert (launches.run(PHALANX_FAIL_AT=fault) == 0) == (not fault), launches.logs[-1]
        if attempt:
            assert f"resumed from step {8 * attempt - 4} of attempt {attempt}" in launches.logs[-1]
    assert losses_in(tmp_path / "gang") == pytest.approx(losses_in(tmp_path / "one"), abs=0, rel=EXACT)
    parts = read(tmp_path / "gang")
    assert {(part.opening.attempt, part.opening.readers) for part in parts} == {(1, 4), (2, 2), (3, 3)}
    assert sum(epoch.seen for epoch in epochs_of(parts)) == 200
    assert sample_ledger.main([str(tmp_path / "gang")]) == ExitCode.DONE
    assert f"epoch 0: {parts[0].opening.sample_count} samples, 0 doubles, 0 missing\n" in capsys.readouterr().out
