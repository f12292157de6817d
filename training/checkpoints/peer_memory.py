"""Checkpoints in the memory of two nodes each: an attempt that has lost one node goes on without reading storage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any

from training.checkpoint_manifest import COMMIT, Commit, Found, Torn, read_commit, verify
from training.checkpoints.holder_client import HolderAddress, HolderLine, find_or_start, folder_of
from training.collectives import add_up, each_works, from_every_rank, meet
from training.files import write_json
from training.world import World

_GONE = (OSError, EOFError, AuthenticationError)


class PeerMemory(AbstractContextManager["PeerMemory"]):
    """One rank's view of the nodes' holders: what it saves goes to its own node's and to the next node's.

    A holder that goes away costs the copy in it and nothing else: checkpoints are still written to storage.
    """

    def __init__(self, world: World, say: Callable[[str], None], alive: Callable[[], None]) -> None:
        """Find or start this node's holder, and tell the others of it; every rank calls it."""
        self._world, self._say, self._alive = world, say, alive
        self._folder = folder_of(world.run_dir)
        own: HolderAddress | None = None
        try:
            own = find_or_start(self._folder)
        except OSError as error:
            say(f"warning: no copy of checkpoints in memory on this node: {error}")
        of_ranks: list[HolderAddress | None] = from_every_rank(own)
        self._nodes = list(dict.fromkeys(filter(None, of_ranks)))
        self._own, self._is_first_of_node = own, of_ranks.index(own) == world.rank
        self._lines: dict[HolderAddress, HolderLine] = {}
        if own is not None:
            self._ask(own, HolderLine.committed)  # and stay connected, which keeps it

    def hold(self, step: int, contents: Mapping[str, memoryview]) -> None:
        """Give this rank's files of a checkpoint to two nodes, if there are two."""
        if self._own is None:
            return
        place = self._nodes.index(self._own)
        for node in dict.fromkeys((self._own, self._nodes[(place + 1) % len(self._nodes)])):
            for name, content in contents.items():
                self._ask(node, HolderLine.hold, step, name, content)

    def commit(self, content: Commit) -> None:
        """Tell all nodes that a checkpoint is committed; the first rank calls it."""
        for node in self._nodes:
            self._ask(node, HolderLine.commit, content.step, asdict(content))

    def find(self, not_before: int) -> Found | None:
        """The newest checkpoint that the nodes hold all of, verified, if of that step or later; every rank calls it.

        Its folder is in this node's memory; `forget` removes it.
        """
        own = [self._ask(self._own, HolderLine.committed) or []] if self._own and self._is_first_of_node else [[]]
        by_node = [(address, held) for address, held in from_every_rank((self._own, own[0])) if held]
        places: dict[str, HolderAddress] = {}
        manifests = {held["commit"]["step"]: held["commit"] for _, all_held in by_node for held in all_held}
        for step in sorted(manifests, reverse=True):
            if step < not_before:
                break
            places = {
                name: address
                for address, all_held in by_node
                for held in all_held
                if held["commit"] == manifests[step]
                for name in held["files"]
            }
            if all(file["path"] in places for file in manifests[step]["files"]):
                return self._fetch(manifests[step], places)
        return None

    def forget(self) -> None:
        """Remove what `find` has fetched, once every rank has loaded it; every rank calls it."""
        meet()
        if self._is_first_of_node:
            shutil.rmtree(self._fetched, ignore_errors=True)

    def end(self) -> None:
        """End the holders: the run is done."""
        if self._own is not None and self._is_first_of_node:
            self._ask(self._own, HolderLine.end)

    def __exit__(self, *_: object) -> None:
        for line in self._lines.values():
            line.close()

    @property
    def _fetched(self) -> Path:
        return self._folder / "fetched"

    def _fetch(self, manifest: dict[str, Any], places: Mapping[str, HolderAddress]) -> Found | None:
        work = partial(self._bring, manifest, places) if self._is_first_of_node else None
        is_here = each_works(work, self._alive) is not False
        if add_up(is_here)[0] < self._world.world_size:
            return None
        return Found(self._fetched, read_commit(self._fetched))

    def _bring(self, manifest: dict[str, Any], places: Mapping[str, HolderAddress]) -> bool:
        shutil.rmtree(self._fetched, ignore_errors=True)
        self._fetched.mkdir()
        for file in manifest["files"]:
            name = file["path"]
            content = self._ask(places[name], HolderLine.fetch, manifest["step"], name)
            if content is None:
                return False
            (self._fetched / name).write_bytes(content)
        write_json(self._fetched / COMMIT, manifest, durable=False)
        try:
            verify(self._fetched)
        except Torn as torn:
            self._say(f"warning: passed over a checkpoint in memory: {torn}")
            return False
        return True

    def _ask(self, node: HolderAddress, request: Callable[..., Any], *given: Any) -> Any:
        """The holder's answer; None if it is gone."""
        try:
            line = self._lines.get(node) or self._lines.setdefault(node, HolderLine(node))
            return request(line, *given)
        except _GONE as error:
            self._lines.pop(node, None)
            self._say(f"warning: the holder of checkpoints in memory at {node.host}:{node.port} is gone: {error!r}")
            return None
