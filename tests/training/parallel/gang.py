"""Ranks over gloo in processes of their own, for tests that need more than one."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from training.world import World

DEADLINE_S = 300


def world_of(rank: int, size: int, folder: Path) -> World:
    """The rank's place, as torchrun would say it."""
    return World(rank, rank, size, "gang", 1, 1, folder, folder, None, is_under_torchrun=size > 1)


def on_ranks(size: int, work: Callable[..., Any], folder: Path, *arguments: Any) -> Any:
    """What rank 0's `work(world, *arguments)` returns when so many ranks have called it.

    Raises:
        AssertionError: a rank failed; holds its traceback.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    ranks = [context.Process(target=_rank, args=(rank, size, port, work, folder, arguments)) for rank in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(DEADLINE_S)
        process.kill()
    said = [pickle.loads(path.read_bytes()) for path in sorted(folder.glob("rank-*.pickle"))]
    errors = [one["error"] for one in said if "error" in one]
    assert not errors, errors[0]
    assert len(said) == size, f"of {size} ranks {len(said)} came to an end"
    return said[0]["result"]


def _rank(rank: int, size: int, port: int, work: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    dist.init_process_group("gloo")
    try:
        said = {"result": work(world_of(rank, size, folder), *arguments)}
    except Exception:  # noqa: BLE001 - handed on to the test
        said = {"error": traceback.format_exc()}
    (folder / f"rank-{rank}.pickle").write_bytes(pickle.dumps(said))
    sys.stdout.flush()
    if "result" in said:
        dist.barrier()  # the store must outlive the others' last collective
    os._exit(0)
