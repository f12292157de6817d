"""A run goes on from what other ranks, in another layout, have left: the losses are those of a run that never moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.lone_run import run_alone
from tests.training.torchrun import Launches
from training.fault_injection import FaultInjection, InjectedFault
from training.parallel.layout import Layout
from training.recipes.language_model_spec import Corpus, LanguageModelParams, LanguageModelSpec
from training.text_folder import write_corpus

SHAPE = {"sequence_length": 16, "layers": 2, "dim": 16, "heads": 2, "kv_heads": 2, "hidden": 24}
EXACT = 1e-6


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    documents = [(f"page-{number}", f"the quick brown fox number {number} jumps. " * 20) for number in range(40)]
    return Corpus(path=str(folder), digest=write_corpus(folder, documents).digest)


def a_spec(corpus: Corpus, workers: int, **layout: Any) -> LanguageModelSpec:
    params = LanguageModelParams(steps=14, global_batch_size=4, **SHAPE)
    return LanguageModelSpec(
        corpus=corpus,
        workers=workers,
        seed=5,
        layout=Layout(**layout),
        checkpoint_every_steps=5,
        code_version="test",
        params=params,
    )


def losses_in(run_dir: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run_dir / "losses.jsonl").read_text().splitlines()]


def samples_in(run_dir: Path) -> int:
    return int(json.loads((run_dir / "result.json").read_bytes())["samples"])


@pytest.fixture(scope="module")
def undisturbed(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_alone(folder, a_spec(corpus, 1))
    return folder


def test_one_process_goes_on_when_two_ranks_that_shared_the_weights_lost_one(
    corpus: Corpus, undisturbed: Path, tmp_path: Path
) -> None:
    two = Launches(tmp_path, a_spec(corpus, 2, shard=2))
    assert two.run(PHALANX_FAIL_AT="1:8:kill") != 0
    run_alone(tmp_path, a_spec(corpus, 1))
    assert losses_in(tmp_path) == pytest.approx(losses_in(undisturbed), abs=EXACT, rel=0)
    assert samples_in(tmp_path) == samples_in(undisturbed) == 14 * 4


def test_two_ranks_that_share_the_products_go_on_when_one_process_failed(
    corpus: Corpus, undisturbed: Path, tmp_path: Path
) -> None:
    with pytest.raises(InjectedFault):
        run_alone(tmp_path, a_spec(corpus, 1), fault=FaultInjection(rank=0, step=8, how="raise"))
    two = Launches(tmp_path, a_spec(corpus, 2, tensor=2), count=1)
    assert two.run() == 0, two.logs[-1]
    assert "resumed from step 5 of attempt 1" in two.logs[-1]
    assert losses_in(tmp_path) == pytest.approx(losses_in(undisturbed), abs=EXACT, rel=0)
    assert samples_in(tmp_path) == samples_in(undisturbed)
