"""What rank 0 of an attempt prints, line by line, while it runs."""

from __future__ import annotations

from pathlib import Path


class RankZeroLog:
    """Follows one attempt's rank-0 log; yields nothing on a host that doesn't hold the run folder."""

    def __init__(self, run_dir: str, attempt: int) -> None:
        self.run_dir = run_dir
        self.attempt = attempt
        self._folder = Path(run_dir) / f"launch-{attempt}"
        self._path: Path | None = None
        self._offset = 0

    def read_new(self, at_most: int) -> list[str]:
        """The whole lines written since the last call; of more than `at_most` the newest, with a note."""
        if self._path is None:
            self._path = next(iter(sorted(self._folder.rglob("rank-0.log"))), None)
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                text = log.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = [line for line in whole.decode(errors="replace").splitlines() if line.strip()]
        left_out = len(lines) - at_most
        return lines if left_out <= 0 else [f"... {left_out} lines, see {self._path}", *lines[left_out:]]
