"""Airflow executes `*_plugin.py` of the plugins folder and no other file of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

# Airflow's own plugin manager, and what it found.
LOAD = """
import json, queue, sys
import airflow.plugins_manager as manager
plugins, errors = manager._get_plugins()
ours = sorted(str(plugin.source) for plugin in plugins if "PLUGINS_FOLDER" in str(plugin.source))
print(json.dumps({"ours": ours, "errors": errors, "queue": queue.__file__ == sys.modules["queue"].__file__}))
"""


@pytest.fixture
def load(run_python: Run, tmp_path: Path) -> Callable[[Path], dict[str, object]]:
    def run(folder: Path) -> dict[str, object]:
        env = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder)}
        found = run_python("-c", LOAD, cwd=tmp_path, AIRFLOW__CORE__LOAD_EXAMPLES="False", **env)
        assert found.returncode == 0, found.stderr
        return dict(json.loads(found.stdout.splitlines()[-1]))

    return run


@pytest.fixture
def plugins(repository: Path, tmp_path: Path) -> Path:
    """A copy of the plugins folder with a file in it that must never run, under a name that would do harm."""
    folder = tmp_path / "plugins"
    shutil.copytree(repository / "plugins", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "gang_trap").mkdir()
    for name in ("queue.py", "gang_trap/queue.py"):
        (folder / name).write_text("raise RuntimeError('Airflow executed a file that is no plugin')\n")
    return folder


def test_airflow_loads_the_plugin_and_nothing_else_when_the_ignore_file_is_there(
    plugins: Path, load: Callable[[Path], dict[str, object]]
) -> None:
    expected = sorted(f"$PLUGINS_FOLDER/{path.name}" for path in plugins.glob("*_plugin.py"))
    assert expected
    assert load(plugins) == {"ours": expected, "errors": {}, "queue": True}


def test_airflow_executes_every_file_when_the_ignore_file_is_missing(
    plugins: Path, load: Callable[[Path], dict[str, object]]
) -> None:
    (plugins / ".airflowignore").unlink()
    errors = load(plugins)["errors"]
    assert isinstance(errors, dict)
    assert any("queue.py" in path for path in errors)
