"""Which GPUs and CPUs each rank gets. GPUs are held by locks that the kernel lets go with the supervisor."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gang_backends.nvml import Gpu


class TooFewGpus(OSError):
    """Fewer GPUs of this host are free than the attempt was placed with."""


@dataclass(frozen=True, slots=True)
class RankDevices:
    """What one rank gets: GPUs by UUID, and the CPUs that it may run on (empty: all)."""

    gpus: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()

    def environment(self) -> dict[str, str]:
        """What CUDA has to see; a rank without GPUs sees none."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)}

    def to_text(self) -> str:
        """The form that tether.py reads: `GPU-a,GPU-b@0,1,2`."""
        return f"{','.join(self.gpus)}@{','.join(map(str, self.cpus))}"


def devices_of(shares: Sequence[Sequence[Gpu]], allowed_cpus: frozenset[int]) -> tuple[RankDevices, ...]:
    """What each rank gets with its share of the GPUs: near CPUs if it may use any, else all that it may use."""
    ranks = []
    for share in shares:
        near = frozenset[int]().union(*(gpu.near_cpus for gpu in share)) & allowed_cpus
        cpus = near if near != allowed_cpus else frozenset()
        ranks.append(RankDevices(tuple(gpu.uuid for gpu in share), tuple(sorted(cpus))))
    return tuple(ranks)


def share_out(free: Sequence[Gpu], per_rank: Sequence[int]) -> list[tuple[Gpu, ...]]:
    """Give each rank so many GPUs, near to the same CPUs where that can be.

    Raises:
        TooFewGpus: there are not so many.
    """
    left = list(free)
    if sum(per_rank) > len(left):
        raise TooFewGpus(
            f"{sum(per_rank)} GPUs were asked for; {len(left)} of this host are free (locks in {lock_folder()}). "
            "Another program of this user holds the others, or they can't be read"
        )
    shares = []
    for count in per_rank:
        together: dict[frozenset[int], list[Gpu]] = {}
        for gpu in left:
            together.setdefault(gpu.near_cpus, []).append(gpu)
        # The smallest place that holds it all keeps the larger ones whole; if none does, the largest come first.
        fitting = sorted((place for place in together.values() if len(place) >= count), key=len)
        places = fitting[:1] or sorted(together.values(), key=len, reverse=True)
        share = tuple(gpu for place in places for gpu in place)[:count]
        left = [gpu for gpu in left if gpu not in share]
        shares.append(share)
    return shares


def lock_folder() -> Path:
    """Where GPUs of this host are locked, for all state folders of this user."""
    return Path(tempfile.gettempdir()) / f"phalanx-gpus-{os.geteuid()}"


class HeldGpus:
    """GPUs that no other supervisor on this host takes until `close` or the end of this process."""

    def __init__(self, gpus: Sequence[Gpu], per_rank: Sequence[int], folder: Path | None = None) -> None:
        """Take what is asked for.

        Raises:
            TooFewGpus: too few are free; none is held.
        """
        self._locks: dict[str, int] = {}
        folder = folder or lock_folder()
        if sum(per_rank):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            free = [gpu for gpu in gpus if sum(per_rank) and self._lock(folder, gpu)]
            self.shares = share_out(free, per_rank)
        except OSError:
            self.close()
            raise
        kept = {gpu.uuid for share in self.shares for gpu in share}
        for uuid in [uuid for uuid in self._locks if uuid not in kept]:
            os.close(self._locks.pop(uuid))

    def close(self) -> None:
        """Let go."""
        while self._locks:
            os.close(self._locks.popitem()[1])

    def _lock(self, folder: Path, gpu: Gpu) -> bool:
        handle = os.open(folder / f"{gpu.uuid}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._locks[gpu.uuid] = handle
        return True
