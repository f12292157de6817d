"""What a supervisor asks of a warm parent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: `python -m module arguments...` in `folder`, as `workers` ranks.

    `environment` is the agent's, whole; `rank_environments` holds what each rank gets beside it,
    and `rank_cpus` the CPUs that it may run on; where these are empty, all that the parent may.
    """

    environment: Mapping[str, str]
    module: str
    arguments: Sequence[str]
    workers: int
    folder: str
    rank_environments: Sequence[Mapping[str, str]] = ()
    rank_cpus: Sequence[Sequence[int]] = ()

    def to_json(self) -> bytes:
        """The message to a warm parent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, message: bytes) -> Self:
        """The request in a message.

        Raises:
            ValueError: it holds none.
        """
        try:
            return cls(**json.loads(message))
        except TypeError as error:
            raise ValueError(f"a request to a warm parent has other fields: {error}") from error
