"""Checkpoints behind the steps: copied between two of them, written by threads, committed once all ranks wrote."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from training.attempts import Claim
from training.checkpoint_manifest import Commit, commit, folder_of, prune
from training.checkpoints.image import Image
from training.checkpoints.index import INDEX
from training.checkpoints.parts import CheckpointNotWritten, read_part, remove_part, write_part
from training.checkpoints.peer_memory import PeerMemory
from training.checkpoints.staging import stage
from training.checkpoints.state import TrainingState, tensors_of
from training.collectives import SECONDS_BETWEEN_LOOKS, add_up
from training.exit_codes import Superseded, TrainingEnd
from training.files import canonical, make_folder
from training.world import World

KEPT = 3  # newest committed checkpoints
LAYOUT = "sharded"  # what the commit manifest says: an index tells which file holds which part of what
NICENESS = 5  # of the threads that write: about a quarter of a core's time where a rank wants all of it


class SaveProgress(NamedTuple):
    """What a rank says of the checkpoint that is being written; added up over the ranks, what all of them know."""

    written: float
    failed: float
    superseded: float
    committed: float


class Committed(NamedTuple):
    """A checkpoint that is there for good; `at` is the first rank's clock (ISO 8601), None on the others."""

    step: int
    at: str | None


@dataclass(slots=True)
class _InFlight:
    step: int
    folder: Path
    contents: dict[str, memoryview]
    manifest: dict[str, Any]
    writing: Future[None]
    committing: Future[str] | None = None

    def is_done(self, future: Future[Any] | None) -> bool:
        return future is not None and future.done() and future.exception() is None

    def error(self) -> BaseException | None:
        """Why it can't be committed, as far as this rank knows."""
        done = [future for future in (self.writing, self.committing) if future is not None and future.done()]
        return next(filter(None, (future.exception() for future in done)), None)


class Checkpointer(AbstractContextManager["Checkpointer"]):
    """One rank's side of saving; every rank calls `begin`, `hear` and `drain` at the same steps.

    At most one checkpoint is being written. Ranks never wait for each other's disks inside a collective, whose time-out
    is shorter than a write may be: they tell each other `progress` at each step, or over and over in `drain`. `claim`
    is rank 0's, None on the others; `storage` is where checkpoints go if not into the run folder. A file's name holds
    the attempt, so that one which was superseded, and does not know yet, writes beside the newer one's files and not
    into them.
    """

    def __init__(
        self,
        world: World,
        claim: Claim | None,
        attempt: int,
        spec_digest: str,
        alive: Callable[[], None],
        memory: PeerMemory | None = None,
        storage: Path | None = None,
    ) -> None:
        self._world, self._claim, self._spec_digest, self._alive = world, claim, spec_digest, alive
        self._memory, self._storage = memory, storage or world.run_dir
        self._attempt, self._prefix = attempt, f"attempt-{attempt}-"
        self._image = Image()
        self._is_given_up = threading.Event()
        self._threads = ThreadPoolExecutor(2, "checkpoint", _be_nice)  # one writes, one hashes
        self._flight: _InFlight | None = None

    @property
    def step_in_flight(self) -> int | None:
        """The step whose checkpoint is being written, if one is."""
        return self._flight.step if self._flight else None

    def begin(self, state: TrainingState) -> None:
        """Copy the state, and let it be written from now on; nothing may be in flight.

        Raises:
            CheckpointNotWritten: there is no folder to write to.
        """
        folder = folder_of(self._storage, state.step)
        name = f"{self._prefix}rank-{self._world.rank}.safetensors"
        index = stage(tensors_of(state, self._world.rank), name, self._image)
        contents = {name: self._image.content}
        if index is not None:
            contents[f"{self._prefix}{INDEX}"] = memoryview(canonical(index.to_json()))
        manifest = {
            "step": state.step,
            "samples": state.reader.position,
            "reader_state": state.reader.state(),
        }
        writing = self._threads.submit(self._write, state.step, folder, contents)
        self._flight = _InFlight(state.step, folder, contents, manifest, writing)

    def progress(self) -> SaveProgress:
        """What this rank knows of the checkpoint in flight."""
        flight = self._flight
        if flight is None:
            return SaveProgress(0, 0, 0, 0)
        error = flight.error()
        is_superseded = isinstance(error, Superseded)
        return SaveProgress(
            flight.is_done(flight.writing),
            error is not None and not is_superseded,
            is_superseded,
            flight.is_done(flight.committing),
        )

    def hear(self, added_up: SaveProgress) -> Committed | None:
        """Act on what all ranks know; returns the checkpoint that was committed, if it now is.

        Raises:
            CheckpointNotWritten: a rank could not write its part, or the first one the manifest.
            Superseded: a newer attempt has claimed the run folder; nothing was committed.
        """
        flight = self._flight
        if flight is None:
            return None
        if added_up.superseded or added_up.failed:
            self._flight = None
            self._take_back(flight)
            raise self._reason(flight, is_superseded=bool(added_up.superseded))
        if added_up.committed:
            self._flight = None
            if flight.committing is None:
                return Committed(flight.step, None)
            self._threads.submit(prune, self._storage, KEPT, flight.step)
            return Committed(flight.step, flight.committing.result())
        if added_up.written == self._world.world_size and self._claim is not None and flight.committing is None:
            flight.committing = self._threads.submit(self._commit, flight, self._claim)
        return None

    def drain(self) -> Committed | None:
        """Wait until nothing is in flight.

        Raises:
            CheckpointNotWritten, Superseded: as `hear`.
        """
        committed = None
        while self._flight is not None:
            self._alive()
            doing: Future[Any] = self._flight.committing or self._flight.writing
            wait([doing], SECONDS_BETWEEN_LOOKS)
            committed = self.hear(SaveProgress(*add_up(*self.progress())))
        return committed

    def __exit__(self, *_: object) -> None:
        """Call off what is in flight, and end the threads."""
        self._is_given_up.set()
        self._threads.shutdown()

    def _write(self, step: int, folder: Path, contents: dict[str, memoryview]) -> None:
        if self._memory is not None:
            self._memory.hold(step, contents)
        try:
            make_folder(folder)
        except OSError as error:
            raise CheckpointNotWritten(
                f"checkpoint {folder}: the folder can't be made: {error.strerror}. Let it be written to, and start "
                "again."
            ) from error
        write_part(folder, self._page(self._world.rank), contents, self._threads, self._is_given_up)

    def _commit(self, flight: _InFlight, claim: Claim) -> str:
        """Write the manifest over what all ranks have written; returns when that was."""
        world = self._world
        listed = [file for rank in range(world.world_size) for file in read_part(flight.folder, self._page(rank))]
        content = Commit(
            **flight.manifest,
            world_size=world.world_size,
            layout=LAYOUT,
            files=tuple(listed),
            gang_id=world.gang_id,
            submission=world.submission,
            attempt=self._attempt,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            spec_digest=self._spec_digest,
        )
        try:
            commit(claim, flight.folder, content)
        except OSError as error:
            raise CheckpointNotWritten(
                f"checkpoint {flight.folder}: the manifest can't be written: {error.strerror}. The checkpoint before "
                "stays. Make room, or let the run folder be written to, and start again."
            ) from error
        if self._memory is not None:
            self._memory.commit(content)
        return content.created_at

    def _page(self, rank: int) -> str:
        return f"{self._prefix}rank-{rank}.json"

    def _take_back(self, flight: _InFlight) -> None:
        wait([flight.writing])  # each rank is told, so none still writes into a folder that another takes back
        remove_part(flight.folder, self._page(self._world.rank), flight.contents)

    def _reason(self, flight: _InFlight, *, is_superseded: bool) -> TrainingEnd:
        own = flight.error()
        if isinstance(own, TrainingEnd):
            return own
        if is_superseded:
            return Superseded(f"superseded: a newer attempt has claimed {self._world.run_dir}; nothing was committed.")
        if own is not None:
            raise own
        return CheckpointNotWritten(
            f"checkpoint {flight.folder}: another rank could not write its part, and says why. The checkpoint before "
            "stays."
        )


def _be_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
