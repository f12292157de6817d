"""Which devices each rank gets, and that no two attempts get the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gang_backends.local_process.agent import TETHER
from gang_backends.local_process.rank_devices import HeldGpus, RankDevices, TooFewGpus, devices_of, share_out
from gang_backends.nvml import Gpu

LEFT, RIGHT = frozenset({0, 1}), frozenset({2, 3})


def a_gpu(index: int, near: frozenset[int] = LEFT) -> Gpu:
    return Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", 80.0, near)


BOARD = [a_gpu(0), a_gpu(1), a_gpu(2), a_gpu(3, RIGHT), a_gpu(4, RIGHT)]


@pytest.mark.parametrize(
    ("per_rank", "expected"),
    [
        ([1, 1], [[3], [4]]),
        ([2], [[3, 4]]),
        ([3, 2], [[0, 1, 2], [3, 4]]),
        ([4], [[0, 1, 2, 3]]),
        ([0, 1], [[], [3]]),
    ],
    ids=["one each", "a pair stays together", "two places", "more than a place has", "a rank without"],
)
def test_gpus_of_a_rank_are_near_to_the_same_cpus_where_that_can_be(
    per_rank: list[int], expected: list[list[int]]
) -> None:
    assert [[gpu.index for gpu in share] for share in share_out(BOARD, per_rank)] == expected


def test_rank_runs_on_the_cpus_near_its_gpus() -> None:
    shares = [(BOARD[0],), (BOARD[3],), (BOARD[0], BOARD[3]), ()]
    devices = devices_of(shares, LEFT | RIGHT)
    assert [each.cpus for each in devices] == [(0, 1), (2, 3), (), ()]
    assert devices[2].environment() == {"CUDA_VISIBLE_DEVICES": "GPU-0,GPU-3"}
    assert devices[3].environment() == {"CUDA_VISIBLE_DEVICES": ""}


def test_no_gpu_is_held_twice_and_all_are_free_again_after_the_end(tmp_path: Path) -> None:
    first = HeldGpus(BOARD, [2], tmp_path)
    second = HeldGpus(BOARD, [1, 1], tmp_path)
    held = {gpu.uuid for share in (*first.shares, *second.shares) for gpu in share}
    assert len(held) == 4
    with pytest.raises(TooFewGpus, match=r"2 GPUs were asked for; 1 of this host are free"):
        HeldGpus(BOARD, [2], tmp_path)
    first.close()
    assert len(HeldGpus(BOARD, [3], tmp_path).shares[0]) == 3


def test_started_rank_takes_its_devices(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    text = ";".join(each.to_text() for each in (RankDevices(("GPU-a",)), RankDevices(("GPU-b", "GPU-c"), (cpu,))))
    program = "import json, os; print(json.dumps([dict(os.environ), sorted(os.sched_getaffinity(0))]))"
    environment = {
        "PHALANX_PARENT_PID": str(os.getpid()),
        "PHALANX_LAUNCH_DIR": str(tmp_path),
        "PHALANX_RANK_DEVICES": text,
        "RANK": "1",
        "LOCAL_RANK": "1",
    }
    command = [sys.executable, "-I", "-S", TETHER, "--rank-log", sys.executable, "-c", program]
    subprocess.run(command, env=environment, check=True, timeout=60)
    seen, cpus = json.loads((tmp_path / "rank-1.log").read_text())
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-c"
    assert "PHALANX_RANK_DEVICES" not in seen
    assert cpus == [cpu]
