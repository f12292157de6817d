"""What a rank that hangs leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from training.seeing.hang_stacks import HangStacks, flight_recorder_environment, stacks_path

HANGS = """
import sys, time
from pathlib import Path
from training.seeing import hang_stacks

def stuck_in_a_collective(path):
    while not path.exists() or "stuck_in_a_collective" not in path.read_text():
        time.sleep(0.01)

folder = Path(sys.argv[1])
with hang_stacks.HangStacks(folder, 1, after_s=0.2) as stacks:
    stuck_in_a_collective(hang_stacks.stacks_path(folder, 1))
"""


def test_stacks_of_all_threads_are_left_when_there_is_no_progress(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", HANGS, str(tmp_path)], env=environment, check=True, timeout=60)
    text = stacks_path(tmp_path, 1).read_text()
    assert text.startswith("Timeout (")
    assert "in stuck_in_a_collective" in text


def test_no_file_is_left_when_there_was_progress(tmp_path: Path) -> None:
    with HangStacks(tmp_path, 0) as stacks:
        stacks.alive()
    assert list(tmp_path.iterdir()) == []


def test_flight_recorder_writes_into_the_launch_folder_unless_it_was_told_where(tmp_path: Path) -> None:
    found = flight_recorder_environment(tmp_path, {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0"})
    assert found == {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "flight-recorder-rank")}
