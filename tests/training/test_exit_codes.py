from __future__ import annotations

import pytest

from training import exit_codes
from training.exit_codes import ExitCode, TrainingEnd


def test_the_codes_are_those_of_the_contract() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "BAD_SPEC": 64,
        "BAD_DATA": 65,
        "PROGRAM_ERROR": 70,
        "INTERRUPTED": 75,
    }


@pytest.mark.parametrize(
    ("end", "code"),
    [("BadSpec", 64), ("BadData", 65), ("PeerLost", 70), ("Interrupted", 75), ("Superseded", 75)],
)
def test_every_known_end_has_its_code(end: str, code: int) -> None:
    kind: type[TrainingEnd] = getattr(exit_codes, end)
    assert kind.exit_code == code
