"""What people ask of a running gang, by a file in its run folder: `request-<what>.json`, answered once by each attempt.

Knows no torch, so that who asks needs none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

from training.files import write_json

What = Literal["profile", "corruption-check"]
MOST_STEPS = 1000  # a trace of more can't be opened by the viewers


@dataclass(frozen=True, slots=True)
class SeeingRequest:
    """A request. `id` tells it from the one before; `steps` is how many a profile shall cover."""

    id: str
    steps: int = 1

    def write(self, run_dir: Path, what: What) -> None:
        """Ask; replaces an earlier request of that kind.

        Raises:
            ValueError: more steps are asked for than a trace may hold.
        """
        if not 1 <= self.steps <= MOST_STEPS:
            raise ValueError(
                f"{what} of {self.steps} steps was asked for; from 1 to {MOST_STEPS} are allowed "
                "(training/seeing/requests.py). Ask for fewer."
            )
        write_json(run_dir / f"request-{what}.json", asdict(self), durable=False)

    @classmethod
    def read(cls, run_dir: Path, what: What) -> Self | None:
        """The newest request; None if there is none that can be read."""
        try:
            content = json.loads((run_dir / f"request-{what}.json").read_bytes())
            return cls(str(content["id"]), min(MOST_STEPS, max(1, int(content["steps"]))))
        except (OSError, ValueError, KeyError, TypeError):
            return None


class NewRequests:
    """Tells a new request from the one that was there at the start, which an earlier attempt has answered."""

    def __init__(self, run_dir: Path, what: What) -> None:
        self._run_dir = run_dir
        self._what: What = what
        self._seen = SeeingRequest.read(run_dir, what)

    def next(self) -> SeeingRequest | None:
        """A request that wasn't there at the last look; None if there is none."""
        found = SeeingRequest.read(self._run_dir, self._what)
        if found is None or found == self._seen:
            return None
        self._seen = found
        return found
