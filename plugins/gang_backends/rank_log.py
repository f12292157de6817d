"""What a rank has written since one last looked."""

from __future__ import annotations

from pathlib import Path

AT_MOST_BYTES = 256 * 1024  # of one look: a program that floods its log must not fill the reader's memory


def rank_log(run_dir: Path | str, attempt: int, rank: int = 0) -> Path:
    """Where the backend keeps a rank's standard output and error, in the order they were written."""
    return Path(run_dir) / f"launch-{attempt}" / f"rank-{rank}.log"


def tail(run_dir: Path | str, attempt: int, offset: int, rank: int = 0) -> tuple[list[str], int]:
    """The whole lines after byte `offset`, and the offset to ask with next.

    A log that isn't there (yet) has no lines. An unfinished last line is left for the next look, unless it alone is
    longer than one look takes.
    """
    try:
        with rank_log(run_dir, attempt, rank).open("rb") as log:
            log.seek(offset)
            new = log.read(AT_MOST_BYTES)
    except FileNotFoundError:
        return [], offset
    whole = new.rfind(b"\n") + 1 or (len(new) if len(new) == AT_MOST_BYTES else 0)
    return new[:whole].decode(errors="replace").splitlines(), offset + whole
