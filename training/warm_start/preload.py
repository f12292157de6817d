"""Imports what a rank of `training.train` comes to import, and nothing that starts a thread."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

# Imported by torch and pyarrow only when first used, each for a good part of a second.
LATE = (
    "numpy",
    "pyarrow.parquet",
    "safetensors.torch",
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.tensor",
    "torch.nn.parallel",
    "torch.optim",
    "training.loop",
)


def import_all() -> None:
    """Import it."""
    for name in LATE:
        importlib.import_module(name)


def freeze() -> None:
    """Take what was imported out of the collector's sight: it would write to each page that forked children share."""
    gc.collect()
    gc.freeze()


def why_not_fork() -> str:
    """Why a fork of this process would not be a sound rank; empty if it would."""
    if (threads := _thread_count()) > 1:
        return f"the warm parent has {threads} threads; locks that the others hold would never be let go in a fork"
    if sys.modules["torch"].cuda.is_initialized():
        return "CUDA is initialised in the warm parent; no fork can use it (torch.cuda, `is_initialized`)"
    return ""


def _thread_count() -> int:
    """The threads of this process, those that Python doesn't know included."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())
