"""The environments that the supervisor, the agent and the ranks get: built, not inherited."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from gang_backends.backend import BackendError, LaunchOrder
from gang_backends.local_process.launch_folder import launch_folder, marks_of
from gang_backends.local_process.warm_agent import WarmStart

LEDGER_URL_FILE = "PHALANX_LEDGER_URL_FILE"
BESIDE_PHALANX = ("gang_backends", "training")  # packages that the children must find, wherever these lie


def base_environment() -> dict[str, str]:
    """What each child gets of the launching process."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", str(Path.home())),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PYTHONPATH": os.pathsep.join(_python_path()),
    }


def supervisor_environment(ledger_url_file: Path, runs_dir: Path, warm: WarmStart | None) -> dict[str, str]:
    """The supervisor alone learns where the ledger's URL is written."""
    return {
        **base_environment(),
        LEDGER_URL_FILE: str(ledger_url_file),
        "PHALANX_RUNS_DIR": str(runs_dir),
        **(warm.to_env() if warm else {}),
    }


def rank_environment(order: LaunchOrder, run_dir: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """What agent and ranks get.

    Raises:
        BackendError: `extra` holds what a rank must not see or the backend sets itself.
    """
    for name in extra:
        if name.startswith(("AIRFLOW", "_AIRFLOW", "PHALANX_")):
            raise BackendError(
                f"gang '{order.key.gang_id}': environment variable {name} was given for its ranks; names that begin "
                "with AIRFLOW or PHALANX_ are not passed on (gang_backends/local_process/environment.py). Leave it out."
            )
    return {
        **base_environment(),
        "OMP_NUM_THREADS": "1",  # ranks share the host's cores; and sums don't depend on how many it has
        **extra,
        **marks_of(order.key, run_dir),
        "PHALANX_LAUNCH_DIR": str(launch_folder(run_dir, order.key.attempt)),
        "PHALANX_RESUME_FROM": order.resume_from,
    }


def _python_path() -> list[str]:
    """Source roots of this installation, then what the launching process was given."""
    roots = []
    for package in BESIDE_PHALANX:
        spec = importlib.util.find_spec(package)  # finds, doesn't import: `training` would cost time here
        if spec is not None and spec.submodule_search_locations:
            roots.append(str(Path(next(iter(spec.submodule_search_locations))).parent))
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return list(dict.fromkeys([*roots, *given]))
