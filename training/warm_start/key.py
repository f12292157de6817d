"""When a warm parent may stand in for a fresh interpreter: only if that would import the very same things."""

from __future__ import annotations

import importlib.metadata
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from training.code_version import code_version
from training.files import digest_of

OURS = "PHALANX_"  # differs from attempt to attempt, and nothing reads it at import
# Given to a parent alone, as libraries read it while they are imported. Arrow's allocator would start a thread, and a
# process with two can't be forked; training/train.py says the second for ranks that import torch themselves.
FOR_PARENT = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of a rank's environment that libraries may read while they are imported: all but the contract's."""
    return {name: value for name, value in environment.items() if not name.startswith(OURS)}


def warm_key(environment: Mapping[str, str]) -> str:
    """Names what an interpreter would hold after its imports; parents with another name are not asked.

    It covers the sources of `training`, the interpreter, torch's version, what is installed beside it (installing
    anything changes the folder) and the environment.
    """
    installed = Path(sysconfig.get_path("purelib"))
    return digest_of(
        {
            "sources": code_version(),
            "interpreter": [sys.executable, sys.version],
            "torch": importlib.metadata.version("torch"),
            "installed": [str(installed), installed.stat().st_mtime_ns],
            "environment": inherited(environment),
        }
    )
