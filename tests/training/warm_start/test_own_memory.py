"""What /proc shows of a forked process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import json, os, sys
from pathlib import Path
from typing import Any
from training.warm_start.own_memory import NoRoom, take_on
refused = ""
if os.fork() == 0:
    try:
        take_on({"RANK": "1", "WORD": "gänzlich"}, "a title that says more than fits " * 20)
    except NoRoom as error:
        refused = str(error)
    said = {name: Path("/proc/self", name).read_bytes().decode() for name in ("environ", "cmdline")}
    child = os.popen('echo "$RANK,$OLD"').read().strip()
    print(json.dumps({**said, "own": dict(os.environ), "child": child, "refused": refused}), flush=True)
    os._exit(0)
os.wait()
assert "OLD=" in Path("/proc/self/environ").read_text()
"""


def forked(environment: dict[str, str]) -> dict[str, Any]:
    """What a forked process says of itself; its parent was started with `environment`."""
    root = str(Path(__file__).parents[3])
    program = f"import sys; sys.path.insert(0, {root!r})\n{PROGRAM}"
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


def test_process_shows_the_environment_that_it_took_on_when_it_was_forked() -> None:
    said = forked({"OLD": "old" * 100})
    assert said["environ"].rstrip("\0").split("\0") == ["RANK=1", "WORD=gänzlich"]
    assert said["own"] == {"RANK": "1", "WORD": "gänzlich"}
    assert said["child"] == "1,"
    assert said["cmdline"].startswith("a title that says more than fits a title")
    assert "RANK" not in said["cmdline"]


def test_nothing_changes_when_the_environment_has_no_room() -> None:
    said = forked({"OLD": "1"})
    assert "the warm parent was started with" in said["refused"]
    assert said["environ"] == "OLD=1\0"
