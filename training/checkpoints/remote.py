"""Checkpoints in object storage, by fsspec: objects first, the manifest last, and brought to each node to be loaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

from training.checkpoint_manifest import COMMIT, Found, Torn, committed, folder_of, read_commit, verify
from training.checkpoints.holder_client import folder_of as node_folder_of
from training.collectives import add_up, each_works, meet, worked_out_by_first_rank
from training.exit_codes import BadData, BadSpec
from training.files import digest_of
from training.warm_start.address import make_private
from training.world import World


def storage_of(run_dir: Path, address: str | None) -> Path:
    """Where a run folder's checkpoints lie: in it, or under `address`, by a name that only this run folder has.

    Raises:
        BadSpec: there is no driver for such an address.
    """
    if address is None:
        return run_dir
    from upath import UPath

    name = f"{run_dir.name}-{digest_of(str(run_dir.absolute()))[:16]}"
    try:
        path = UPath(address) / name
        protocol = path.fs.protocol
    except (ImportError, ValueError) as error:
        raise BadSpec(
            f"run spec: checkpoint_storage = {address!r}: {error}. Install the driver of that storage, or name another."
        ) from error
    if "file" in protocol:
        return Path(path.path)
    return cast(Path, path)  # which has its methods


class Brought:
    """A node's copy of a checkpoint, in memory; the first rank on each node brings it, all of them load it."""

    def __init__(self, world: World, say: Callable[[str], None], alive: Callable[[], None]) -> None:
        self._world, self._say, self._alive = world, say, alive
        self._folder = node_folder_of(world.run_dir) / f"brought-{world.rank - world.local_rank}"

    def find(self, storages: Iterable[Path]) -> tuple[Found, Path] | None:
        """As `checkpoint_manifest.find`, on all ranks at once; also returns the storage that it is from.

        Raises:
            BadData: a storage has commits and none verifies.
        """
        for storage in storages:
            listing = partial(_steps_in, storage) if self._world.is_first else None
            steps = worked_out_by_first_rank(listing, self._alive)
            for step in steps:
                if self._is_brought(folder_of(storage, step)):
                    return Found(self._folder, read_commit(self._folder)), storage
            if steps:
                raise BadData(
                    f"storage {storage}: none of {len(steps)} committed checkpoints can be brought and verifies; the "
                    f"log says why. To begin from scratch, remove {storage} and submit again; to resume, bring the "
                    "objects back."
                )
        return None

    def forget(self) -> None:
        """Remove the copy, once every rank has loaded it; every rank calls it."""
        meet()
        if self._world.local_rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            with suppress(OSError):  # a holder may live there
                self._folder.parent.rmdir()

    def _is_brought(self, remote: Path) -> bool:
        work = partial(self._bring, remote) if self._world.local_rank == 0 else None
        is_here = each_works(work, self._alive) is not False
        return add_up(is_here)[0] == self._world.world_size

    def _bring(self, remote: Path) -> bool:
        make_private(self._folder.parent)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        try:
            for name in (COMMIT, *(file.path for file in read_commit(remote).files)):
                with (remote / name).open("rb") as source, (self._folder / name).open("wb") as target:
                    shutil.copyfileobj(source, target, 8 << 20)
            verify(self._folder)
        except (OSError, Torn) as error:
            self._say(f"warning: passed over a torn checkpoint: {remote}: {error}")
            return False
        return True


def _steps_in(storage: Path) -> list[int]:
    return [int(folder.name.removeprefix("step-")) for folder in committed(storage)]
