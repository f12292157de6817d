"""Token shards from a folder of text, or from the documentation that every Python brings along.

`python -m training.text_folder --out CORPUS [--text FOLDER]`
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from training.exit_codes import BadData, ExitCode, TrainingEnd
from training.files import sha256_of, sync
from training.token_shards import CorpusIndex, Shard, write_index

TEXT, HTML = frozenset({".txt", ".md", ".rst"}), frozenset({".html", ".htm"})
END_OF_DOCUMENT = 256  # after the 256 values of a byte
VOCAB = 257
VALIDATION_SHARE = 0.1  # of the documents
TOKENS_PER_SHARD = 64 * 1024 * 1024


def main(arguments: list[str]) -> int:
    """Write the shards and print where they are and their digest; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.text_folder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the corpus' folder; it must be empty or not exist")
    parser.add_argument("--text", type=Path, help="a folder of .txt, .md, .rst and .html; default: Python's own pages")
    asked = parser.parse_args(arguments)
    try:
        index = write_corpus(asked.out, documents_of(asked.text) if asked.text else own_documents())
    except TrainingEnd as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    tokens = {split: sum(shard.tokens for shard in shards) for split, shards in index.splits.items()}
    sys.stdout.write(f"corpus {asked.out.resolve()}\ndigest {index.digest}\n")
    for split, count in tokens.items():
        sys.stdout.write(f"{split}: {index.documents[split]:,} documents, {count:,} tokens\n")
    return ExitCode.DONE


def own_documents() -> Iterator[tuple[str, str]]:
    """Names and texts of what `help()` says about Python's own statements and types: some 450 KB, PSF licence."""
    from pydoc_data.topics import topics

    yield from sorted(topics.items())


def documents_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of the files in the folder and below, in the order of their names; HTML without its tags.

    Raises:
        BadData: the folder isn't there.
    """
    if not folder.is_dir():
        raise BadData(f"text folder {folder}: there is no such folder. Name one that holds .txt, .md, .rst or .html.")
    for path in sorted(folder.rglob("*")):
        kind = path.suffix.lower()
        if kind in TEXT | HTML and path.is_file():
            text = path.read_text(errors="replace")
            yield str(path.relative_to(folder)), text_of(text) if kind in HTML else text


def write_corpus(folder: Path, documents: Iterable[tuple[str, str]]) -> CorpusIndex:
    """Tokenise the documents, each byte a token, into shards; which split a document is in follows from its name.

    Raises:
        BadData: there is something in the folder already, or one of the splits would be empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BadData(f"corpus {folder}: the folder is not empty. Name another, or remove what lies there.")
    folder.mkdir(parents=True, exist_ok=True)
    writers = {split: _ShardWriter(folder, split) for split in ("train", "validation")}
    for name, text in documents:
        writers["validation" if _is_held_out(name) else "train"].add(text)
    splits = {split: writer.close() for split, writer in writers.items()}
    counts = {split: writer.documents for split, writer in writers.items()}
    if not all(counts.values()):
        raise BadData(
            f"corpus {folder}: {counts['train']} documents to train on and {counts['validation']} to validate; both "
            "need one. Name a folder with more files (.txt, .md, .rst, .html)."
        )
    index = CorpusIndex("bytes", VOCAB, "<u2", splits, counts)
    write_index(folder, index)
    return index


def text_of(html: str) -> str:
    """What a page says, without tags, scripts and styles."""
    reader = _TextOfHtml()
    reader.feed(html)
    reader.close()
    lines = (line.strip() for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


class _TextOfHtml(HTMLParser):
    SILENT = frozenset({"script", "style", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the base's
        self._silent += tag in self.SILENT

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in self.SILENT and self._silent > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def _is_held_out(name: str) -> bool:
    """A document stays in its split whatever others come or go."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
    return number < VALIDATION_SHARE * 2**32


class _ShardWriter:
    """Appends documents, and begins a new file when one is full."""

    def __init__(self, folder: Path, split: str) -> None:
        self._folder, self._split = folder, split
        self._parts: list[np.ndarray] = []
        self._held = 0
        self._done: list[Shard] = []
        self.documents = 0

    def add(self, text: str) -> None:
        tokens = np.frombuffer(text.encode(), dtype=np.uint8).astype("<u2")
        self._parts += [tokens, np.array([END_OF_DOCUMENT], dtype="<u2")]
        self._held += len(tokens) + 1
        self.documents += 1
        if self._held >= TOKENS_PER_SHARD:
            self._flush()

    def close(self) -> tuple[Shard, ...]:
        if self._held:
            self._flush()
        return tuple(self._done)

    def _flush(self) -> None:
        path = self._folder / f"{self._split}-{len(self._done):05}.bin"
        np.concatenate(self._parts).tofile(path)
        sync(path)
        self._done.append(Shard(path.name, self._held, sha256_of(path)))
        self._parts, self._held = [], 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
