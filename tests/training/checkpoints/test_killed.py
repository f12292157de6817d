"""A rank killed at any byte of a save: the newest complete checkpoint is found, and nothing else is ever loaded."""

from __future__ import annotations

import json
import multiprocessing as mp
import re
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.training.checkpoints import killed_save
from tests.training.checkpoints.killed_save import RANKS, state_at
from tests.training.checkpoints.states import differing, whole
from tests.training.parallel.gang import world_of
from training import checkpoint_manifest
from training.checkpoints.restoring import restore

BEFORE, KILLED_AT = 3, 5  # steps
DEADLINE_S = 120
PAGE, MANIFEST = "rank-0.json", "commit.json"
CONTEXT = mp.get_context("forkserver")
CONTEXT.set_forkserver_preload([killed_save.__name__])


def save(run_dir: Path, step: int, doomed: int | None = None, room: int | None = None) -> list[int | None]:
    """Each rank's exit code."""
    with tempfile.NamedTemporaryFile() as store:
        ranks = [
            CONTEXT.Process(target=killed_save.save, args=(rank, f"{store.name}.store", run_dir, step, doomed, room))
            for rank in range(RANKS)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(DEADLINE_S)
            process.kill()
        Path(f"{store.name}.store").unlink(missing_ok=True)
    return [process.exitcode for process in ranks]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with one checkpoint."""
    run_dir = tmp_path_factory.mktemp("good")
    assert save(run_dir, BEFORE) == [0, 0]
    return run_dir


def plain(name: str) -> str:
    """A file's name without what says that it is a temporary one, or of which attempt."""
    return re.sub(r"^\.|\.\d+\.tmp$|attempt-1-", "", name)


@pytest.fixture(scope="module")
def ends(good: Path) -> list[dict[str, int]]:
    """By rank: how many bytes it has written in all by the end of each file of a save."""
    return [
        {plain(name): end for name, end in json.loads((good / f"ends-{rank}.json").read_text())}
        for rank in range(RANKS)
    ]


def assert_only_what_is_complete_is_loaded(good: Path, run_dir: Path, doomed: int, room: int, *, is_new: bool) -> None:
    shutil.copytree(good, run_dir, dirs_exist_ok=True)
    assert save(run_dir, KILLED_AT, doomed, room)[doomed] == -signal.SIGKILL
    found = checkpoint_manifest.find([run_dir])
    assert found is not None
    assert found.commit.step == (KILLED_AT if is_new else BEFORE)
    state = state_at(1)
    restore(state, found, world_of(0, 1, run_dir), "digest")
    assert differing(whole(state), whole(state_at(found.commit.step))) == set()
    assert state.reader.state() == state_at(found.commit.step).reader.state()


def test_files_are_written_in_their_order_when_ranks_save(ends: list[dict[str, int]]) -> None:
    assert list(ends[0]) == ["rank-0.safetensors", "index.json", PAGE, MANIFEST]
    assert list(ends[1]) == ["rank-1.safetensors", "rank-1.json"]


PLACES: dict[str, tuple[int, str | None, int]] = {  # by rank, after which file's end, and how many bytes on
    "before any byte": (0, None, 0),
    "in the first shard's header": (0, None, 5),
    "in the first shard": (0, None, 2000),
    "at the first shard's last byte": (0, "rank-0.safetensors", -1),
    "between the first shard and the index": (0, "rank-0.safetensors", 0),
    "in the index": (0, "rank-0.safetensors", 99),
    "in the first rank's page": (0, "index.json", 9),
    "before any byte of the second rank": (1, None, 0),
    "in the second shard": (1, None, 2000),
    "between the second shard and its page": (1, "rank-1.safetensors", 0),
    "in the second rank's page": (1, "rank-1.safetensors", 9),
    "before the manifest": (0, PAGE, 0),
    "in the manifest": (0, PAGE, 100),
    "at the manifest's last byte": (0, MANIFEST, -1),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_one_before_is_loaded_when_a_rank_is_killed(
    place: str, good: Path, ends: list[dict[str, int]], tmp_path: Path
) -> None:
    doomed, file, further = PLACES[place]
    room = (ends[doomed][file] if file else 0) + further
    assert_only_what_is_complete_is_loaded(good, tmp_path, doomed, room, is_new=False)


@pytest.mark.parametrize("doomed", range(RANKS))
def test_the_new_one_is_loaded_when_a_rank_is_killed_after_the_manifest(
    doomed: int, good: Path, tmp_path: Path
) -> None:
    assert_only_what_is_complete_is_loaded(good, tmp_path, doomed, 10**9, is_new=True)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(doomed=st.integers(0, RANKS - 1), share=st.floats(0, 1, exclude_max=True))
def test_the_one_before_is_loaded_when_a_rank_is_killed_at_any_byte(
    doomed: int, share: float, good: Path, ends: list[dict[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    room = int(share * max(ends[doomed].values()))
    assert_only_what_is_complete_is_loaded(good, tmp_path_factory.mktemp("run"), doomed, room, is_new=False)
