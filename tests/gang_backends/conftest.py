"""Hosts to launch attempts on; nothing of a test's attempts outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gang_backends.local_process import LocalProcessBackend, proc_table
from gang_backends.local_process.identity import from_ref
from gang_backends.local_process.launch_folder import marks_of
from tests.gang_backends.file_ledger import FileLedger
from tests.gang_backends.local_host import HERE, OPEN_LEDGER, Host


@pytest.fixture
def real_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with the real torchrun."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]))
    backend = LocalProcessBackend(tmp_path / "runs", tmp_path / "ledger.url", OPEN_LEDGER)
    host = Host(tmp_path, backend, FileLedger(tmp_path))
    yield host
    for key, ref in host.refs.items():
        process = from_ref(ref)
        if process is not None:
            proc_table.send(process.pid, process.start_time, signal.SIGKILL)
        run_dir = host.run_dir(key.gang_id.rpartition("/")[2])
        assert proc_table.kill_all(marks_of(key, run_dir))[1] == []


@pytest.fixture
def host(real_host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with the stand-in for torchrun."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE / "light_torch"), os.environ["PYTHONPATH"]]))
    return real_host
