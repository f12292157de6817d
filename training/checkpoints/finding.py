"""Where the newest checkpoint is: in the nodes' memory, on disk, or in object storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from training import checkpoint_manifest
from training.checkpoint_manifest import Found
from training.checkpoints.peer_memory import PeerMemory
from training.checkpoints.remote import Brought, storage_of
from training.collectives import worked_out_by_first_rank
from training.files import is_remote
from training.world import World


@dataclass(frozen=True, slots=True)
class Located:
    """A verified checkpoint, whose files lie in `found.folder` on this node.

    `whose` says in words which attempt or submission it is of. Every rank calls `forget` once it is loaded.
    """

    found: Found
    is_own: bool
    whose: str
    forget: Callable[[], None]


class Finder:
    """Looks for a run's checkpoints; every rank calls it."""

    def __init__(
        self,
        world: World,
        storage_address: str | None,
        memory: PeerMemory | None,
        say: Callable[[str], None],
        alive: Callable[[], None],
    ) -> None:
        self._world, self._memory, self._say, self._alive = world, memory, say, alive
        self._own = storage_of(world.run_dir, storage_address)
        self._earlier = storage_of(world.resume_from, storage_address) if world.resume_from else None

    def find(self) -> Located | None:
        """The newest checkpoint that verifies, of this run folder, else of the earlier submission's; None if none is.

        Raises:
            BadData: there are checkpoints, and none verifies.
        """
        located = self._in_memory() or (self._in_storage() if is_remote(self._own) else self._on_disk())
        for reason in located.found.passed_over if located else ():
            self._say(f"warning: passed over a torn checkpoint: {reason}")
        return located

    def _in_memory(self) -> Located | None:
        """What the nodes hold, unless storage has a later step."""
        if self._memory is None:
            return None
        newest = partial(checkpoint_manifest.newest_step, self._own) if self._world.is_first else None
        found = self._memory.find(not_before=worked_out_by_first_rank(newest, self._alive) or 0)
        if found is None:
            return None
        whose = f"attempt {found.commit.attempt}, held in memory"
        return Located(found, is_own=True, whose=whose, forget=self._memory.forget)

    def _on_disk(self) -> Located | None:
        storages = [self._own, *filter(None, [self._earlier])]
        find = partial(checkpoint_manifest.find, storages) if self._world.is_first else None
        found: Found | None = worked_out_by_first_rank(find, self._alive)
        if found is None:
            return None
        return self._located(found, found.folder.is_relative_to(self._own), found.folder, lambda: None)

    def _in_storage(self) -> Located | None:
        brought = Brought(self._world, self._say, self._alive)
        found = brought.find([self._own, *filter(None, [self._earlier])])
        if found is None:
            return None
        return self._located(found[0], found[1] == self._own, found[1], brought.forget)

    def _located(self, found: Found, is_own: bool, place: Path, forget: Callable[[], None]) -> Located:
        whose = f"attempt {found.commit.attempt}" if is_own else f"an earlier submission ({place})"
        return Located(found, is_own, whose, forget)
