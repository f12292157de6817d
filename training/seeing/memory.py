"""What a rank holds in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: resident in the host's memory, and at most allocated on this rank's GPU so far (None without one)."""

    rss_bytes: int
    gpu_peak_bytes: int | None


def memory_now() -> Memory:
    """That of the calling process. It initialises no GPU."""
    resident_pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    has_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch's
    peak_bytes = torch.cuda.max_memory_allocated() if has_gpu else None
    return Memory(resident_pages * os.sysconf("SC_PAGE_SIZE"), peak_bytes)
