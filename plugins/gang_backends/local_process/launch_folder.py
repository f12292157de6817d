"""The folder of one launch: what was ordered, who runs it, how it ended; every file whole or absent.

`order.json` (the launcher) -> `supervisor.json` (the supervisor, under the lock, before anything starts) ->
`end.json` (under the lock). A folder with an end never starts anything again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from gang_scheduler.gang import AttemptKey
from gang_scheduler.verdict import AttemptEnd, Cause, RankOutcome

ORDER, SUPERVISOR, END, LOCK = "order.json", "supervisor.json", "end.json", "lock"
STOP = "stop.json"  # how long the ranks may take to stop: {"grace_s"}


@dataclass(frozen=True, slots=True)
class Order:
    """All that a supervisor needs to run an attempt. `environment` is the agent's, whole; `host` wrote the order.

    `gpus` is how many each rank gets; empty in orders from before there were any.
    """

    key: AttemptKey
    run_dir: str
    command: tuple[str, ...]
    workers: int
    grace_s: float
    environment: Mapping[str, str]
    open_ledger: str
    host: str
    gpus: tuple[int, ...] = ()

    @property
    def marks(self) -> dict[str, str]:
        """What every process of the attempt carries in its environment and no other process does."""
        return marks_of(self.key, Path(self.run_dir))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The order in a launch folder; None if there is none that can be read."""
        content = read_json(folder / ORDER) or {}
        try:
            known = {field.name: content[field.name] for field in fields(cls) if field.name != "gpus"}
            gpus = tuple(map(int, content.get("gpus", ())))
            key, command = AttemptKey(**known["key"]), tuple(known["command"])
            return cls(**{**known, "key": key, "command": command, "gpus": gpus})
        except (KeyError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Write the order into a launch folder."""
        write_json(folder / ORDER, {"schema": 1, **asdict(self), "key": self.key._asdict()})


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, and what it made if it succeeded."""

    end: AttemptEnd
    result: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The end in a launch folder; None if there is none."""
        content = read_json(folder / END)
        if content is None:
            return None
        end = content["end"]
        end["ranks"] = tuple(RankOutcome(**rank) for rank in end["ranks"])
        end["forced_cause"] = Cause(end["forced_cause"]) if end["forced_cause"] else None
        return cls(AttemptEnd(**end), content["result"])

    def write(self, folder: Path) -> None:
        """Write the end into a launch folder, from where nothing starts any more."""
        write_json(folder / END, {"schema": 1, "end": asdict(self.end), "result": self.result})


def launch_folder(run_dir: Path, attempt: int) -> Path:
    """The folder of an attempt's launch."""
    return run_dir / f"launch-{attempt}"


def marks_of(key: AttemptKey, run_dir: Path) -> dict[str, str]:
    """The environment variables that tell an attempt's processes from all others."""
    return {
        "PHALANX_GANG_ID": key.gang_id,
        "PHALANX_SUBMISSION": str(key.submission),
        "PHALANX_ATTEMPT": str(key.attempt),
        "PHALANX_RUN_DIR": str(run_dir),
    }


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Try to take the launch's lock, which its supervisor holds as long as it lives; False if another has it."""
    # Not inheritable, as Python opens files: a child must not keep it.
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if the file isn't there or holds none.

    What a database can't store is taken out: NaN and infinity (as None) and NUL characters.
    """
    try:
        content = _storable(json.loads(path.read_bytes(), parse_constant=lambda _: None))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    return value


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON so that a reader finds all of it or none, also after a power cut."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader finds all of it or none, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
