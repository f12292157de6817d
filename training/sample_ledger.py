"""Which samples every attempt, step and rank has consumed, and the proof that an epoch held each of them once.

`python -m training.sample_ledger RUN_DIR` prints it for the history that is committed: steps that were lost with a
process, and made again from the checkpoint before, count once. It ends with 70 where a sample is missing or doubled.

A file for each attempt and rank: a line of JSON, `Opening`, then little-endian uint32: a step, how many samples, and
their numbers; or a step and `COMMITTED`, by the first rank. It is appended to when a checkpoint begins, which is soon
enough, as what comes after the last checkpoint is no history; and so a kill can tear only what does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.exit_codes import BadData, ExitCode, TrainingEnd
from training.files import flush, write_out

FOLDER = "samples"
COMMITTED = 2**32 - 1
NOBODY = -1  # stands for each sample that a step lacks
WORD = np.dtype("<u4")
Samples = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Opening:
    """Whose samples a file holds: those of reader `reader` out of `readers`, from the step after `after_step` on."""

    attempt: int
    reader: int
    readers: int
    after_step: int
    sample_count: int
    global_batch_size: int

    def path(self, run_dir: Path) -> Path:
        """Where the file lies."""
        return run_dir / FOLDER / f"attempt-{self.attempt}-reader-{self.reader}"


class SampleLedger:
    """What one rank writes of one attempt."""

    def __init__(self, run_dir: Path, opening: Opening) -> None:
        """Begin the file.

        Raises:
            BadData: there are more samples than numbers for them.
        """
        if opening.sample_count > COMMITTED:
            raise BadData(
                f"sample ledger: {opening.sample_count} samples are more than it has numbers for, {COMMITTED} "
                "(training/sample_ledger.py). Set sample_ledger to false."
            )
        self._is_first = opening.reader == 0
        self._path = opening.path(run_dir)
        self._path.parent.mkdir(exist_ok=True)
        self._pending: list[npt.NDArray[np.uint32]] = []
        self._append(json.dumps(asdict(opening)).encode() + b"\n")

    def note(self, step: int, samples: Samples) -> None:
        """This rank consumes these in the step; int64 [n]."""
        self._pending.append(np.concatenate([[step, len(samples)], samples]).astype(WORD))

    def save(self) -> None:
        """Make what was noted outlast the process and the machine."""
        pending, self._pending = self._pending, []
        self._append(b"".join(record.tobytes() for record in pending))

    def note_commit(self, step: int) -> None:
        """The checkpoint of the step is committed; only the first rank's word counts."""
        if self._is_first:
            self._append(np.array([step, COMMITTED], WORD).tobytes())

    def _append(self, content: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            write_out(file, content)
            flush(file)


@dataclass(frozen=True, slots=True)
class Part:
    """One file, read: `samples` by step, and the last step that it calls committed."""

    opening: Opening
    samples: dict[int, Samples]
    committed_step: int

    @classmethod
    def read(cls, path: Path) -> Part:
        """Read it; a torn end is left out.

        Raises:
            BadData: it is no such file.
        """
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            opening = Opening(**json.loads(head))
        except (OSError, ValueError, TypeError) as error:
            raise BadData(f"sample ledger {path}: it can't be read: {error}.") from error
        words = np.frombuffer(body[: len(body) // WORD.itemsize * WORD.itemsize], WORD)
        samples: dict[int, Samples] = {}
        committed_step, place = opening.after_step, 0
        while place + 2 <= len(words):
            step, count = int(words[place]), int(words[place + 1])
            place += 2
            if count == COMMITTED:
                committed_step = step
            elif place + count <= len(words):
                samples[step] = words[place : place + count].astype(np.int64)
                place += count
            else:
                break
        return cls(opening, samples, committed_step)


@dataclass(frozen=True, slots=True)
class Epoch:
    """How many samples of an epoch, or of as much of it as was read, were consumed: `doubles` too often."""

    number: int
    seen: int
    doubles: int
    missing: int
    is_whole: bool


def history_of(parts: Sequence[Part]) -> list[list[Part]]:
    """Who made each committed step, from the first on: the parts of the attempt that counts, by rank.

    An attempt goes on from a committed step; whatever earlier ones made after that step was lost.
    """
    attempts: dict[int, list[Part]] = {}
    for part in sorted(parts, key=lambda part: (part.opening.attempt, part.opening.reader)):
        attempts.setdefault(part.opening.attempt, []).append(part)
    newest_first = [attempts[attempt] for attempt in sorted(attempts, reverse=True)]
    steps: list[list[Part]] = []
    end = newest_first[0][0].committed_step if newest_first else 0
    for made_by in newest_first:
        begin = made_by[0].opening.after_step
        steps[:0] = [made_by] * max(0, end - begin)
        end = min(end, begin)
    return [[]] * end + steps


def epochs_of(parts: Sequence[Part]) -> Iterator[Epoch]:
    """What the committed history holds of each epoch; a step that nobody noted is missing whole."""
    opening = parts[0].opening
    count, batch = opening.sample_count, opening.global_batch_size
    pieces: list[Samples] = []
    for step, made_by in enumerate(history_of(parts), 1):
        noted = [part.samples[step] for part in made_by if step in part.samples]
        pieces += [*noted, np.full(max(0, batch - sum(map(len, noted))), NOBODY)]
    stream = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    for number, begin in enumerate(range(0, len(stream), count)):
        piece = stream[begin : begin + count]
        seen = piece[piece != NOBODY]
        different = len(np.unique(seen))
        yield Epoch(number, len(seen), len(seen) - different, len(piece) - different, len(piece) == count)


def read(run_dir: Path) -> list[Part]:
    """All that a run folder holds.

    Raises:
        BadData: there is nothing, or nothing that can be read.
    """
    paths = sorted((run_dir / FOLDER).glob("attempt-*"))
    if not paths:
        raise BadData(f"sample ledger: {run_dir / FOLDER} holds none. Set sample_ledger to true in the run spec.")
    return [Part.read(path) for path in paths]


def main(arguments: Sequence[str]) -> int:
    """Print the proof; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.sample_ledger", description=__doc__.partition("\n")[0])
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    try:
        parts = read(parser.parse_args(arguments).run_dir)
    except TrainingEnd as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    is_exact = True
    for epoch in epochs_of(parts):
        share = "" if epoch.is_whole else f" of {parts[0].opening.sample_count}, so far"
        sys.stdout.write(
            f"epoch {epoch.number}: {epoch.seen} samples{share}, {epoch.doubles} doubles, {epoch.missing} missing\n"
        )
        is_exact = is_exact and not epoch.doubles and not epoch.missing
    return ExitCode.DONE if is_exact else ExitCode.PROGRAM_ERROR


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
