"""Which partitions must be built, and by whom, when several processes want overlapping ones at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_pipelines.manifest import InputFile, Manifest, ManifestError, NewerManifest, manifest_path
from data_pipelines.partition_claim import claimed, claimed_all_free

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Want:
    """Partitions of one dataset that shall exist, made from these inputs by this code."""

    data_dir: Path
    dataset: str
    inputs: Mapping[str, Sequence[InputFile]]
    code_version: str

    def manifest_of(self, partition: str) -> Manifest | None:
        """The partition's manifest if it is what is wanted; None if it must be built."""
        path = manifest_path(self.data_dir, self.dataset, partition)
        if not path.exists():
            return None
        try:
            manifest = Manifest.read(path)
        except NewerManifest:
            raise
        except ManifestError as error:
            log.warning("%s", error)
            return None
        if not manifest.is_made_from(self.inputs[partition], self.code_version):
            return None
        if not all((path.parent / file.path).is_file() for file in manifest.files):
            log.warning("%s %s: a file that its manifest names is missing; it is built again", self.dataset, partition)
            return None
        return manifest

    def missing(self, partitions: Sequence[str]) -> list[str]:
        """Those that must be built."""
        return [partition for partition in partitions if self.manifest_of(partition) is None]


@dataclass
class Built:
    """Which partitions this process built, and for which it waited until another had."""

    here: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


def build_missing(want: Want, build: Callable[[Sequence[str]], None]) -> Built:
    """Have every wanted partition built, here or by another process that is at it.

    All claims that are free are taken without waiting and built together; only a process that holds no claim waits for
    one. So two processes with overlapping wants can't wait for each other. A holder that died has lost its claim, and
    what it left undone is built here.

    Args:
        want: the partitions.
        build: commits the given ones; their claims are held by this process meanwhile.
    """
    folder = want.data_dir / want.dataset
    partitions = sorted(want.inputs)
    built, waited_for = Built(), set[str]()
    while missing := want.missing(partitions):
        with claimed_all_free(folder, missing) as free:
            mine = want.missing(free)  # one may have been finished between the look and the claim
            if mine:
                build(mine)
                built.here += mine
        if not free:
            waited_for.add(missing[0])
            with claimed(folder, missing[0], on_wait=_say_who(want.dataset, missing[0])):
                pass
    built.elsewhere = sorted(waited_for - set(built.here))
    return built


def _say_who(dataset: str, partition: str) -> Callable[[str], None]:
    return lambda holder: log.info("%s %s is being built by %s; waiting for it", dataset, partition, holder)
