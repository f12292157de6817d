"""What the supervisor takes a ledger for is what ledgers are."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from gang_backends.local_process import attempt_ledger
from gang_ledgers import ledger


@pytest.mark.parametrize("call", ["start", "renew", "end_attempt"])
def test_calls_are_the_ledger_s(call: str) -> None:
    ours, theirs = (inspect.signature(getattr(c, call)) for c in (attempt_ledger.AttemptLedger, ledger.Ledger))
    assert list(ours.parameters) == list(theirs.parameters)


def test_supervisor_never_imports_torch_or_airflow() -> None:
    program = "import sys, gang_backends.local_process.supervisor; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "airflow", "pyspark", "sqlalchemy"} & set(loaded)
