"""What every test runs under: Airflow's own state in a throw-away folder, nothing sent anywhere."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Set before any test module imports Airflow, which writes its configuration into AIRFLOW_HOME on import.
_airflow_home = tempfile.mkdtemp(prefix="phalanx-tests-airflow-")
atexit.register(shutil.rmtree, _airflow_home, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = _airflow_home
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["GX_ANALYTICS_ENABLED"] = "false"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository that is tested."""
    return Path(__file__).resolve().parents[1]
