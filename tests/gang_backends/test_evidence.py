from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gang_backends.local_process.evidence import ERROR_CHARACTERS, gather, last_committed_step, read_progress
from gang_backends.local_process.launch_folder import Ended, Order
from gang_scheduler.gang import AttemptKey
from gang_scheduler.verdict import AttemptEnd, Cause

NO_WORD = None


def an_order(run_dir: Path, workers: int = 2) -> Order:
    (run_dir / "launch-1").mkdir(parents=True, exist_ok=True)
    return Order(AttemptKey("d/r/t", 1, 1), str(run_dir), ("train.py",), workers, 30.0, {}, "nowhere:ledger", "host")


def say(run_dir: Path, rank: int, exit_code: int | None, error: dict[str, Any] | None = None) -> None:
    if exit_code is not NO_WORD:
        said = {"exit_code": exit_code, "error": error, "step": 1}
        (run_dir / f"launch-1/outcome-rank{rank}.json").write_text(json.dumps(said))


@pytest.mark.parametrize(
    ("codes", "has_result", "agent", "forced"),
    [
        pytest.param((0, 0), True, None, Cause.DONE, id="done-though-nobody-saw-it"),
        pytest.param((0, 0), True, -9, Cause.DONE, id="done-though-the-agent-was-killed-then"),
        pytest.param((0, 0), True, 0, None, id="done-and-seen"),
        pytest.param((0, 0), False, None, None, id="all-ranks-say-so-but-there-is-no-result"),
        pytest.param((0, NO_WORD), True, None, Cause.SUPERVISOR_LOST, id="one-rank-without-a-word"),
        pytest.param((NO_WORD, NO_WORD), False, None, Cause.SUPERVISOR_LOST, id="no-word-at-all"),
        pytest.param((75, 75), False, None, None, id="ranks-say-that-they-have-saved"),
        pytest.param((65, 70), False, None, None, id="ranks-say-what-is-wrong"),
    ],
)
def test_cause_is_forced_only_where_the_ranks_do_not_tell(
    tmp_path: Path, codes: tuple[int | None, ...], has_result: bool, agent: int | None, forced: Cause | None
) -> None:
    order = an_order(tmp_path)
    for rank, code in enumerate(codes):
        say(tmp_path, rank, code)
    if has_result:
        (tmp_path / "result.json").write_text('{"steps": 3}')
    ended = gather(order, agent_exit_code=agent, proof="seen", cause_if_unfinished=Cause.SUPERVISOR_LOST)
    assert ended.end.forced_cause is forced
    is_done = forced is Cause.DONE or agent == 0
    assert ended.result == ({"steps": 3} if is_done else None)


def test_end_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    order = an_order(tmp_path)
    say(tmp_path, 1, 70, {"type": "ValueError", "message": "bad", "traceback": "Traceback ..."})
    ended = gather(order, agent_exit_code=1, proof="seen", cause_if_unfinished=Cause.SUPERVISOR_LOST)
    ended.write(tmp_path / "launch-1")
    assert Ended.read(tmp_path / "launch-1") == ended


def test_what_no_database_stores_is_taken_out(tmp_path: Path) -> None:
    order = an_order(tmp_path, workers=1)
    say(tmp_path, 0, 70, {"type": "E", "message": "a\0b", "traceback": "x" * 10 * ERROR_CHARACTERS})
    (tmp_path / "heartbeat.json").write_text('{"launch": 1, "step": 2, "loss": NaN}')
    (tmp_path / "launch-1/rank-0.log").write_text("be\0fore\nend\n")
    end = gather(order, agent_exit_code=1, proof="seen").end
    assert end.ranks[0].error_message == "ab"
    assert len(end.ranks[0].traceback) == ERROR_CHARACTERS
    assert end.log_tail == "before\nend"
    progress = read_progress(tmp_path, 1)
    assert progress is not None
    assert (progress.step, progress.loss) == (2, None)


@pytest.mark.parametrize("beat", ['{"launch": 1, "step": 2}', "", "{torn", "[]"])
def test_there_is_no_progress_when_the_heartbeat_is_another_launch_s_or_torn(tmp_path: Path, beat: str) -> None:
    (tmp_path / "heartbeat.json").write_text(beat)
    assert read_progress(tmp_path, 2) is None


def test_only_committed_checkpoints_count(tmp_path: Path) -> None:
    assert last_committed_step(tmp_path) is None
    for step in (5, 10, 15):
        (tmp_path / f"checkpoints/step-{step:08d}").mkdir(parents=True)
    for step in (5, 10):
        (tmp_path / f"checkpoints/step-{step:08d}/commit.json").write_text("{}")
    assert last_committed_step(tmp_path) == 10


def test_facts_are_gathered_when_the_run_folder_is_gone(tmp_path: Path) -> None:
    order = an_order(tmp_path / "gone")
    (tmp_path / "gone/launch-1").rmdir()
    end = gather(order, agent_exit_code=-9, proof="seen").end
    assert end == AttemptEnd(-9, end.ranks, proof="seen")
    assert [rank.exit_code for rank in end.ranks] == [None, None]
