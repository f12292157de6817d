"""Which parents may stand in for a fresh interpreter."""

from __future__ import annotations

import pytest

from training.warm_start import key as key_module
from training.warm_start.key import warm_key

ENVIRONMENT = {"PATH": "/bin", "OMP_NUM_THREADS": "1"}


def test_key_is_the_same_when_only_the_attempt_differs() -> None:
    first = warm_key({**ENVIRONMENT, "PHALANX_ATTEMPT": "1", "PHALANX_RUN_DIR": "/runs/a"})
    assert first == warm_key({**ENVIRONMENT, "PHALANX_ATTEMPT": "2", "PHALANX_RUN_DIR": "/runs/b"})


def test_key_differs_when_the_environment_does() -> None:
    assert warm_key(ENVIRONMENT) != warm_key({**ENVIRONMENT, "OMP_NUM_THREADS": "2"})


def test_key_differs_when_the_code_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before = warm_key(ENVIRONMENT)
    monkeypatch.setattr(key_module, "code_version", lambda: "changed")
    assert warm_key(ENVIRONMENT) != before
