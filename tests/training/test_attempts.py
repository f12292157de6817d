from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from training.attempts import claim, newest
from training.exit_codes import Superseded

CLAIM_TWENTY = "import sys, pathlib, training.attempts as a; [a.claim(pathlib.Path(sys.argv[1]), 1) for _ in range(20)]"


def test_claims_count_up_and_say_who_made_them(tmp_path: Path) -> None:
    assert newest(tmp_path) == 0
    assert [claim(tmp_path, launch=7).attempt, claim(tmp_path, launch=9).attempt] == [1, 2]
    content = json.loads((tmp_path / "attempts" / "2").read_text())
    assert content.keys() == {"attempt", "launch", "pid", "host", "started_at"}
    assert (content["attempt"], content["launch"]) == (2, 9)


def test_an_older_claim_is_superseded_when_a_newer_one_is_made(tmp_path: Path) -> None:
    first = claim(tmp_path, launch=1)
    first.check()
    second = claim(tmp_path, launch=2)
    assert first.is_superseded()
    with pytest.raises(Superseded, match="attempt 2 has claimed"):
        first.check()
    second.check()


def test_no_number_is_given_twice_when_processes_claim_at_once(tmp_path: Path, repository: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", CLAIM_TWENTY, str(tmp_path)], cwd=repository) for _ in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    claims = [json.loads(path.read_text()) for path in (tmp_path / "attempts").iterdir()]
    assert sorted(content["attempt"] for content in claims) == list(range(1, 61))
