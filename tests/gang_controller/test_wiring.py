from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gang_backends.nvml import find_gpus
from gang_controller import wiring
from gang_ledgers.ledger import RequestRefused
from gang_scheduler.resources import Resources
from pool_settings import SettingsInvalid, read_text
from tests.builders import a_claim, a_gang, a_node_record
from tests.gang_backends.nvml.recorded_nvml import RecordedNvml
from tests.ledger_steps import running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder whose ledger is SQLite; nothing in the environment names another."""
    for name in ("HOME", "LEDGER_URL_FILE", "RUNS_DIR", "LOCAL_SLOTS", "POOLS"):
        monkeypatch.delenv(f"PHALANX_{name}", raising=False)
    (tmp_path / "ledger.url").write_text(f"sqlite:///{tmp_path / 'ledger.db'}\n")
    return tmp_path


def test_controller_serves_this_host_as_pool_local(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_LOCAL_SLOTS", "3")
    controller = wiring.open_controller(home)
    answer = controller.submit(a_gang(workers=3), a_claim())
    assert answer.run_dir.startswith(str(home / "runs"))
    with pytest.raises(RequestRefused, match="gang pool 'local' holds 3 CPUs"):
        controller.submit(a_gang("dag/run/large", workers=4), a_claim())
    controller.close()


def test_ledger_is_found_by_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHALANX_LEDGER_URL_FILE", str(home / "ledger.url"))
    monkeypatch.setenv("PHALANX_RUNS_DIR", str(tmp_path / "elsewhere"))
    ledger = wiring.open_ledger()
    assert ledger.submit(a_gang(), a_claim()).run_dir.startswith(str(tmp_path / "elsewhere"))
    ledger.close()


def test_home_that_is_named_outranks_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_LEDGER_URL_FILE", "/nowhere/ledger.url")
    assert wiring.ledger_url_file(home) == home / "ledger.url"
    monkeypatch.setenv("PHALANX_HOME", str(home))
    assert wiring.runs_dir() == home / "runs"


def test_controller_opens_and_looks_when_the_pool_belongs_to_another_host(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = wiring.open_ledger(home)
    elsewhere.register_node(a_node_record(host_id="another host"))
    key = running(elsewhere, a_gang(), host_id="another host")
    controller = wiring.open_controller(home)
    assert f"still holds {key}" in caplog.text
    assert controller.release(key.gang_id, None, "operator", "cancelled")
    assert controller.tick().carried_out == 0, "what is to be done there is left to that host"
    for ledger in (elsewhere, controller):
        ledger.close()


LOCALHOST = "[pool.local]\n[[pool.local.nodes]]\nname = 'localhost'\ncpus = 5\nmemory_gib = 8\ngpus = 2\n"


def test_environment_outranks_the_settings_which_outrank_the_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_text(LOCALHOST)
    assert wiring.local_node(settings).node.capacity == Resources(cpus=5, memory_gib=8, gpus=2)
    monkeypatch.setenv("PHALANX_LOCAL_SLOTS", "3.5")
    assert wiring.local_node(settings).node.capacity.cpus == 3.5
    monkeypatch.setenv("PHALANX_LOCAL_SLOTS", "-1")
    with pytest.raises(wiring.NotWired, match="must be a number above 0"):
        wiring.open_controller(home)


def test_controller_goes_by_the_file_in_the_state_folder_and_hears_of_its_changes(home: Path) -> None:
    (home / "pools.toml").write_text(LOCALHOST + "[queue.default]\n")
    controller = wiring.open_controller(home)
    controller.submit(a_gang(workers=5), a_claim())
    (home / "pools.toml").write_text(LOCALHOST + "[queue.research]\n# changed\n")
    with pytest.raises(RequestRefused, match="known gang queues: 'research'"):
        controller.submit(a_gang("dag/other/train"), a_claim())
    controller.close()


def test_controller_opens_and_says_so_when_the_settings_are_invalid(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "pools.toml").write_text("[queue.default]\nwait = 1\n")
    controller = wiring.open_controller(home)
    assert "no gang is admitted or asked for until the settings are put right" in caplog.text
    assert controller.list_gangs() == []
    with pytest.raises(SettingsInvalid, match="'wait' is not known here"):
        controller.submit(a_gang(), a_claim())
    controller.close()


def test_registry_lies_in_the_ledgers_database(home: Path) -> None:
    registry = wiring.open_registry(home)
    assert registry.models() == []
    registry.close()


def test_missing_ledger_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_LEDGER_URL_FILE", raising=False)
    with pytest.raises(wiring.NotWired, match="phalanx up"):
        wiring.open_ledger(tmp_path)


def test_importing_the_wiring_loads_neither_airflow_nor_torch() -> None:
    program = (
        "import sys, gang_controller.wiring, gang_controller.controller, gang_ledgers.sql, model_registry.sql\n"
        "print([name for name in ('airflow', 'torch', 'pyspark', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_gpus_of_this_host_are_counted_unless_the_settings_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = find_gpus(RecordedNvml("dgx-h100"))
    monkeypatch.setattr(wiring, "find_gpus", lambda: gpus)
    node = wiring.local_node().node
    assert (node.capacity.gpus, node.gpu_model, node.gpu_memory_gib) == (8, "NVIDIA H100 80GB HBM3", 80.0)
    monkeypatch.setattr(wiring, "find_gpus", tuple)
    assert wiring.local_node().node.capacity.gpus == 0


@pytest.mark.parametrize(("said", "seconds"), [(None, 900.0), ("0", 0.0), ("2.5", 150.0)])
def test_warm_parents_stay_as_long_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, said: str | None, seconds: float
) -> None:
    monkeypatch.delenv("PHALANX_WARM_MINUTES", raising=False)
    if said is not None:
        monkeypatch.setenv("PHALANX_WARM_MINUTES", said)
    assert wiring.warm_idle_s() == seconds


@pytest.mark.parametrize("said", ["soon", "-1", "inf", "nan"])
def test_what_is_no_time_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("PHALANX_WARM_MINUTES", said)
    with pytest.raises(wiring.NotWired, match=f"PHALANX_WARM_MINUTES is '{said}'"):
        wiring.warm_idle_s()
