"""What the supervisor takes a ledger for is what ledgers are."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

from gang_backends.local_process import attempt_ledger
from gang_ledgers import ledger


def test_progress_has_the_fields_of_the_ledger_s() -> None:
    ours, theirs = (
        [(f.name, f.type, f.default) for f in fields(c)] for c in (attempt_ledger.Progress, ledger.Progress)
    )
    assert ours == theirs


def test_directives_are_the_ledger_s() -> None:
    assert ledger.Directive(attempt_ledger.STOP) is ledger.Directive.STOP
    assert ledger.Directive(attempt_ledger.SUPERSEDED) is ledger.Directive.SUPERSEDED


@pytest.mark.parametrize("call", ["start", "renew", "end_attempt"])
def test_calls_are_the_ledger_s(call: str) -> None:
    ours, theirs = (inspect.signature(getattr(c, call)) for c in (attempt_ledger.AttemptLedger, ledger.Ledger))
    assert list(ours.parameters) == list(theirs.parameters)


def test_supervisor_never_imports_torch_or_airflow() -> None:
    program = "import sys, gang_backends.local_process.supervisor; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "airflow", "pyspark", "sqlalchemy"} & set(loaded)
