from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from tests.training.lone_run import run_alone
from training import model_folder
from training.exit_codes import BadData
from training.fault_injection import FaultInjection, InjectedFault
from training.models.transformer import Transformer, TransformerConfig
from training.recipes.language_model import LanguageModel
from training.recipes.language_model_spec import Corpus, LanguageModelParams, LanguageModelSpec
from training.text_folder import write_corpus

SMALL = {"steps": 12, "global_batch_size": 4, "sequence_length": 16, "layers": 1, "dim": 16, "heads": 2, "kv_heads": 1}
DOCUMENTS = [(f"page-{number}", f"the quick brown fox number {number} jumps. " * 20) for number in range(40)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    return Corpus(path=str(folder), digest=write_corpus(folder, DOCUMENTS).digest)


def a_spec(corpus: Corpus, **params: Any) -> LanguageModelSpec:
    return LanguageModelSpec(
        corpus=corpus,
        seed=5,
        workers=1,
        checkpoint_every_steps=5,
        code_version="test",
        params=LanguageModelParams(**SMALL | {"hidden": 24} | params),
    )


def result_of(run_dir: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    return content


def test_it_learns_and_says_what_it_is(corpus: Corpus, tmp_path: Path) -> None:
    run_alone(tmp_path / "run", a_spec(corpus, steps=60, learning_rate=0.01))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "losses.jsonl").read_text().splitlines()]
    assert losses[0] == pytest.approx(math.log(257), abs=0.1)
    card, weights, _ = model_folder.read(Path(result_of(tmp_path / "run")["model_dir"]))
    assert card["metrics"]["validation_loss"] < losses[0] - 1
    assert card["metrics"]["validation_perplexity"] == pytest.approx(math.exp(card["metrics"]["validation_loss"]))
    assert card["metrics"]["untrained_perplexity"] > 2 * card["metrics"]["validation_perplexity"]
    model = Transformer(TransformerConfig(**card["config"]))
    model.load_state_dict(weights)
    assert (card["tokenizer"], card["corpus_digest"]) == ("bytes", corpus.digest)


def test_it_goes_on_bit_for_bit_when_it_failed_on_the_way(corpus: Corpus, tmp_path: Path) -> None:
    spec = a_spec(corpus)
    run_alone(tmp_path / "undisturbed", spec)
    with pytest.raises(InjectedFault):
        run_alone(tmp_path / "failed", spec, fault=FaultInjection(rank=0, step=8, how="raise"))
    run_alone(tmp_path / "failed", spec)
    assert {**result_of(tmp_path / "failed"), "model_dir": ""} == {
        **result_of(tmp_path / "undisturbed"),
        "model_dir": "",
    }


def test_targets_are_the_inputs_one_token_later(corpus: Corpus) -> None:
    recipe = LanguageModel(a_spec(corpus))
    batch = recipe.batch(torch.tensor([0, 3]))
    assert batch.inputs[0].shape == batch.targets.shape == (2, 16)
    assert torch.equal(batch.inputs[0][:, 1:], batch.targets[:, :-1])


def test_norms_do_not_decay(corpus: Corpus) -> None:
    matrices, norms = LanguageModel(a_spec(corpus)).build_optimizer().param_groups
    assert (matrices["weight_decay"], norms["weight_decay"]) == (0.1, 0.0)
    assert {weight.dim() for weight in norms["params"]} == {1}


def test_tied_embeddings_are_written_once(corpus: Corpus, tmp_path: Path) -> None:
    run_alone(tmp_path, a_spec(corpus, tied_embeddings=True, steps=2))
    card, weights, _ = model_folder.read(tmp_path / "model")
    assert "head.weight" not in weights
    assert card["config"]["is_tied"]


def test_a_window_longer_than_the_corpus_is_refused(corpus: Corpus) -> None:
    with pytest.raises(BadData, match=r"sequence_length = 1000000 tokens\. Ask for a shorter one"):
        LanguageModel(a_spec(corpus, sequence_length=1_000_000))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        pytest.param({"dim": 18, "heads": 4}, "dim as a multiple of twice the heads", id="odd heads"),
        pytest.param({"heads": 2, "kv_heads": 3}, "kv_heads that divide heads", id="uneven groups"),
    ],
)
def test_a_shape_that_can_not_be_is_refused(corpus: Corpus, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        a_spec(corpus, **params)


def test_the_digest_does_not_depend_on_where_the_corpus_lies(corpus: Corpus) -> None:
    elsewhere = corpus.model_copy(update={"path": "/elsewhere"})
    assert a_spec(corpus).digest() == a_spec(elsewhere).digest()
    assert a_spec(corpus).digest() != a_spec(corpus, dim=32).digest()
