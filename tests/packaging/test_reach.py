"""What Airflow's processes import stays light: neither torch nor a Spark session, however far away."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]

IMPORT_AND_LIST = """
import importlib, json, runpy, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
for path in json.loads(sys.argv[2]):
    runpy.run_path(path, run_name="dag_file")
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def test_neither_torch_nor_pyspark_is_loaded_when_airflow_loads_our_dags_operators_and_plugin(
    run_python: Run, packages: dict[str, Path], repository: Path, tmp_path: Path
) -> None:
    light = [name for name in ("operators", "gang_controller", "cluster_view", "phalanx_cli") if name in packages]
    modules = [
        ".".join(path.relative_to(packages[name].parent).with_suffix("").parts).removesuffix(".__init__")
        for name in light
        for path in sorted(packages[name].rglob("*.py"))
        if path.stem != "__main__"
    ]
    files = [str(path) for folder in ("dags", "plugins") for path in sorted((repository / folder).glob("*.py"))]
    home = {"AIRFLOW_HOME": str(tmp_path), "PHALANX_HOME": str(tmp_path / "phalanx")}
    run = run_python("-c", IMPORT_AND_LIST, json.dumps(modules), json.dumps(files), cwd=tmp_path, **home)
    assert run.returncode == 0, run.stderr
    loaded = json.loads(run.stdout.splitlines()[-1])
    assert "operators" in loaded
    assert set(loaded) & {"torch", "pyspark", "ray", "great_expectations"} == set()
