"""Where things lie; `phalanx up` says it to every Airflow process through the environment."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def _place(variable: str, folder: str) -> Path:
    if given := os.environ.get(variable):
        return Path(given)
    return Path(os.environ.get("PHALANX_HOME", ".phalanx")).resolve() / folder


def scratch_dir() -> Path:
    """For files that live as long as one job; made if it is missing."""
    found = _place("PHALANX_SCRATCH_DIR", "tmp")
    found.mkdir(parents=True, exist_ok=True)
    return found


def data_dir() -> Path:
    """Raw rows, partitions and their manifests."""
    return _place("PHALANX_DATA_DIR", "data")


def models_dir() -> Path:
    """Models that were registered, and evaluation reports."""
    return _place("PHALANX_MODELS_DIR", "models")


def reports_dir() -> Path:
    """Quality reports, one folder per DAG; served under `/phalanx/reports`."""
    return _place("PHALANX_REPORTS_DIR", "reports")


def safe_name(text: str) -> str:
    """`text` as one path component and URL segment, different for different texts."""
    return quote(text, safe="+:@=,").replace("%", "~") or "~"
