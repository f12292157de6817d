from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from training import text_folder
from training.exit_codes import BadData
from training.text_folder import END_OF_DOCUMENT, documents_of, own_documents, text_of, write_corpus
from training.token_shards import INDEX, Windows, read_index

DOCUMENTS = [(f"page-{number}", "abcdefghij" * (number + 1)) for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "corpus", DOCUMENTS)
    return tmp_path / "corpus"


def test_every_byte_and_an_end_of_each_document_are_tokens(folder: Path) -> None:
    index = read_index(folder)
    stored = [np.fromfile(folder / shard.file, dtype=index.dtype) for split in index.splits.values() for shard in split]
    assert sum(map(len, stored)) == sum(len(text) + 1 for _, text in DOCUMENTS)
    assert sum((tokens == END_OF_DOCUMENT).sum() for tokens in stored) == len(DOCUMENTS)
    assert bytes(stored[0][:10].astype(np.uint8)) == b"abcdefghij"


def test_a_document_stays_in_its_split_when_others_come(tmp_path: Path) -> None:
    few, many = (write_corpus(tmp_path / str(count), DOCUMENTS[:count]) for count in (30, 40))
    assert few.documents["validation"] <= many.documents["validation"]
    assert sum(few.documents.values()) == 30


def test_equal_text_gives_an_equal_digest(tmp_path: Path, folder: Path) -> None:
    again = write_corpus(tmp_path / "again", DOCUMENTS)
    other = write_corpus(tmp_path / "other", [*DOCUMENTS[:-1], ("page-39", "something else")])
    assert again.digest == read_index(folder).digest != other.digest


@pytest.mark.parametrize("length", [7, 64])
def test_windows_cover_each_shard_once_but_for_its_rest(folder: Path, length: int) -> None:
    index = read_index(folder)
    windows = Windows(folder, index, "train", length)
    tokens = np.fromfile(folder / index.splits["train"][0].file, dtype=index.dtype)
    assert len(windows) == (len(tokens) - 1) // length
    found = windows.read(np.arange(len(windows)))
    assert found.shape == (len(windows), length + 1)
    assert np.array_equal(found[:, :-1].ravel(), tokens[: len(windows) * length])
    assert np.array_equal(found[:-1, -1], found[1:, 0])


def test_windows_of_several_shards_are_numbered_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_folder, "TOKENS_PER_SHARD", 500)
    index = write_corpus(tmp_path / "corpus", DOCUMENTS)
    assert len(index.splits["train"]) > 3
    windows = Windows(tmp_path / "corpus", index, "train", 50)
    apart = [(shard.tokens - 1) // 50 for shard in index.splits["train"]]
    assert len(windows) == sum(apart)
    first_of_second = np.fromfile(tmp_path / "corpus" / index.splits["train"][1].file, dtype=index.dtype)[:51]
    assert np.array_equal(windows.read(np.array([apart[0]]))[0], first_of_second)


def damage_a_shard(folder: Path) -> None:
    path = folder / "train-00000.bin"
    path.write_bytes(b"x" + path.read_bytes()[1:])


def cut_the_index(folder: Path) -> None:
    path = folder / INDEX
    path.write_bytes(path.read_bytes()[:-20])


def write_a_newer_index(folder: Path) -> None:
    content = json.loads((folder / INDEX).read_bytes())
    (folder / INDEX).write_text(json.dumps(content | {"schema": 99}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(damage_a_shard, "train-00000.bin: sha256", id="a changed shard"),
        pytest.param(lambda folder: (folder / "train-00000.bin").unlink(), "can't be read", id="a lost shard"),
        pytest.param(cut_the_index, "can't be read", id="a torn index"),
        pytest.param(lambda folder: (folder / INDEX).unlink(), "can't be read", id="no index"),
        pytest.param(write_a_newer_index, "made by a newer version", id="a newer index"),
    ],
)
def test_a_damaged_corpus_is_refused_by_name(folder: Path, damage: object, said: str) -> None:
    damage(folder)  # type: ignore[operator]
    with pytest.raises(BadData, match=said):
        read_index(folder)


def test_another_corpus_is_refused_when_a_digest_is_asked_for(folder: Path) -> None:
    with pytest.raises(BadData, match="asked for is"):
        read_index(folder, "0" * 64)


# --- text


def test_html_is_read_without_its_tags() -> None:
    page = "<html><head><title>t</title></head><body><p>One &amp; two</p><script>no()</script><li>three</body></html>"
    assert text_of(page) == "One & twothree\n"


def test_a_folder_s_texts_are_read_in_order_and_others_left_out(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.rst").write_text("two")
    (tmp_path / "a.md").write_bytes(b"one \xff")
    (tmp_path / "c.png").write_bytes(b"\x89PNG")
    (tmp_path / "d.HTML").write_text("<p>three</p>")
    assert list(documents_of(tmp_path)) == [("a.md", "one \ufffd"), ("b/two.rst", "two"), ("d.HTML", "three\n")]


def test_python_s_own_pages_fill_both_splits(tmp_path: Path) -> None:
    index = write_corpus(tmp_path / "corpus", own_documents())
    assert min(index.documents.values()) >= 3
    assert sum(shard.tokens for shard in index.splits["train"]) > 200_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--text", "{tmp}/nowhere", "--out", "{tmp}/new"], "there is no such folder", id="no text"),
        pytest.param(["--text", "{tmp}/empty", "--out", "{tmp}/new"], "both need one", id="no documents"),
        pytest.param(["--out", "{tmp}/full"], "the folder is not empty", id="something lies there"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("x")
    assert text_folder.main([argument.format(tmp=tmp_path) for argument in arguments]) == 65
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new" / INDEX).exists()
