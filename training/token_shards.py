"""A corpus as memory-mapped tokens: one file after the other, and an index, written last, that says what they are."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training.exit_codes import BadData
from training.files import digest_of, sha256_of, write_json

SCHEMA = 1
INDEX = "index.json"
NEXT_STEP = "Make the shards again (python -m training.text_folder), or name another corpus."


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of tokens, little-endian `uint16` or `uint32` by the index."""

    file: str
    tokens: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CorpusIndex:
    """What `index.json` says. `splits` are the shards of "train" and "validation"; `documents` counts those of each."""

    tokenizer: str
    vocab: int
    dtype: str
    splits: dict[str, tuple[Shard, ...]]
    documents: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """What `read_index` reads."""
        return {"schema": SCHEMA, **asdict(self)}

    @property
    def digest(self) -> str:
        """What the corpus is known by; it covers every token."""
        return digest_of(self.to_json())


def write_index(folder: Path, index: CorpusIndex) -> str:
    """Make the shards in the folder a corpus; returns its digest."""
    write_json(folder / INDEX, index.to_json())
    return index.digest


def read_index(folder: Path, digest: str | None = None) -> CorpusIndex:
    """The corpus in a folder, its files held against the index.

    Raises:
        BadData: something is missing, changed, of a newer version, or not the corpus asked for; names the file.
    """
    try:
        content = json.loads((folder / INDEX).read_bytes())
        if content.pop("schema") > SCHEMA:
            raise BadData(f"corpus {folder}: made by a newer version than this trainer's ({SCHEMA}). {NEXT_STEP}")
        splits = {name: tuple(Shard(**shard) for shard in shards) for name, shards in content.pop("splits").items()}
        index = CorpusIndex(splits=splits, **content)
        if digest not in (None, index.digest):
            raise BadData(f"corpus {folder}: its digest is {index.digest}, asked for is {digest}. {NEXT_STEP}")
        for shard in (shard for shards in splits.values() for shard in shards):
            found = sha256_of(folder / shard.file)
            if found != shard.sha256:
                raise BadData(f"token shard {folder / shard.file}: sha256 {found}, not {shard.sha256}. {NEXT_STEP}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData(f"corpus {folder}: can't be read: {error!r}. {NEXT_STEP}") from error
    return index


class Windows:
    """Stretches of `length` + 1 tokens of one split, by their number; neighbours share one token, the last target.

    A window lies in one shard; what a shard has beyond its last whole window is left out.
    """

    def __init__(self, folder: Path, index: CorpusIndex, split: str, length: int) -> None:
        """Map the files; nothing is read yet."""
        self._length = length
        shards = index.splits[split]
        self._tokens = [np.memmap(folder / shard.file, dtype=index.dtype, mode="r") for shard in shards if shard.tokens]
        counts = [max(0, (len(tokens) - 1) // length) for tokens in self._tokens]
        self._ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The windows' tokens: int64 [n, length + 1]."""
        found = np.empty((len(numbers), self._length + 1), dtype=np.int64)
        for row, number in enumerate(numbers):
            shard = bisect_right(self._ends, number)
            first = (int(number) - (self._ends[shard - 1] if shard else 0)) * self._length
            found[row] = self._tokens[shard][first : first + self._length + 1]
        return found
