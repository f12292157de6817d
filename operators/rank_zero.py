"""What rank 0 of an attempt prints, while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from gang_backends.rank_log import rank_log, tail


class RankZeroLog:
    """Follows one attempt's rank-0 log; on a host that doesn't hold the run folder there is nothing to read."""

    def __init__(self, run_dir: str, attempt: int) -> None:
        self.run_dir = run_dir
        self.attempt = attempt
        self._offset = 0

    def read_new(self, at_most: int) -> Sequence[str]:
        """The lines written since the last call; of more than `at_most` the newest, with a note."""
        lines, self._offset = tail(self.run_dir, self.attempt, self._offset)
        told = [line for line in lines if line.strip()]
        left_out = len(told) - at_most
        if left_out <= 0:
            return told
        return [f"... {left_out} more lines are in {rank_log(self.run_dir, self.attempt)}", *told[left_out:]]
