"""The local-process backend with the real torchrun: what it does with signals and deaths, and what it says of them."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta

from gang_backends.local_process.agent_report import parse
from gang_scheduler.judge import judge
from gang_scheduler.verdict import Cause
from tests.gang_backends.local_host import Host, wait_for


def test_two_gangs_talk_only_among_themselves_when_they_run_side_by_side(real_host: Host) -> None:
    """And, as starts are dear: one is stopped and of the other a rank is killed; neither program leaves an outcome."""
    left = real_host.order("left", program="gloo_program.py", holds=1)
    right = real_host.order("right", program="gloo_program.py", holds=10)
    refs = [real_host.launch(left), real_host.launch(right)]
    for order, total in ((left, 2.0), (right, 20.0)):
        real_host.wait_training(order)
        assert json.loads((real_host.run_dir(order.key.gang_id[8:]) / "heartbeat.json").read_text())["loss"] == total
    assert len(real_host.processes(left)) == len(real_host.processes(right)) == 3

    real_host.backend.stop(refs[0], left.run_dir, left.key, timedelta(seconds=30))
    state = real_host.wait_dead(left)
    assert state.end is not None
    first, second = state.end.ranks
    assert first.exit_code == 75
    # torchrun sends SIGTERM once one rank has ended, and an interpreter on its way out no longer handles it.
    assert second.exit_code in (75, -signal.SIGTERM)
    assert judge(state.end).cause is Cause.INTERRUPTED
    assert (state.end.agent_exit_code, state.end.was_asked_to_stop) == (1, True)

    os.kill(real_host.ranks(right)[1], signal.SIGKILL)
    state = real_host.wait_dead(right)
    assert state.end is not None
    assert not state.end.was_asked_to_stop
    assert judge(state.end).cause is Cause.RANK_KILLED
    killed, other = state.end.ranks
    assert (killed.rank, killed.exit_code) == (1, -signal.SIGKILL)
    assert other.rank == 0
    assert other.exit_code not in (0, None)
    assert real_host.processes(left) + real_host.processes(right) == []


def test_recorded_error_is_read_from_the_agent_when_a_program_leaves_no_outcome(real_host: Host) -> None:
    order = real_host.order(program="gloo_program.py", holds=1, fails_at=3)
    real_host.launch(order)
    end = real_host.wait_end()["end"]
    cause = end["ranks"][0]
    assert (cause["rank"], cause["exit_code"]) == (1, 1)
    assert cause["error_type"] == "ValueError"
    assert cause["error_message"] == "step 3 is bad luck"
    assert "in main\n" in cause["traceback"]
    assert "bad luck" in end["log_tail"]


def test_exit_code_and_printed_error_are_kept_when_one_rank_fails(real_host: Host) -> None:
    order = real_host.order(fails_with={"rank": 1, "raises": "no such day"})
    real_host.launch(order)
    end = real_host.wait_end()["end"]
    cause, follower = end["ranks"]
    assert (cause["rank"], cause["exit_code"]) == (1, 1)
    assert (cause["error_type"], cause["error_message"]) == ("RuntimeError", "no such day")
    assert (follower["rank"], follower["exit_code"]) == (0, 75), "torchrun tells the others to stop"
    assert end["log_tail"].startswith("rank 1 is here\nabout to fail\nTraceback")
    report = parse((real_host.launch_dir(order) / "agent.log").read_text())
    assert report.root_rank == 1
    assert [(failure.rank, failure.exit_code) for failure in report.failures] == [(1, 1), (0, 75)]


def test_ranks_die_when_the_real_agent_is_killed(real_host: Host) -> None:
    order = real_host.order()
    real_host.launch(order)
    real_host.wait_training(order)
    ranks = real_host.ranks(order)
    os.kill(real_host.agent(order), signal.SIGKILL)
    end = real_host.wait_dead(order).end
    assert end is not None
    assert judge(end).cause is Cause.AGENT_KILLED
    assert end.agent_exit_code == -signal.SIGKILL
    assert [rank.exit_code for rank in end.ranks] == [None, None]
    assert len(ranks) == 2
    wait_for(lambda: not real_host.processes(order), "nothing is left")


def test_agent_is_stopped_when_it_has_no_ranks_yet(real_host: Host) -> None:
    order = real_host.order()
    ref = real_host.launch(order)
    wait_for(lambda: real_host.processes(order), "the agent is there")
    assert real_host.ranks(order) == {}, "it is importing torch"
    real_host.backend.stop(ref, order.run_dir, order.key, timedelta(seconds=30))
    end = real_host.wait_end()["end"]
    assert end["was_asked_to_stop"]
    assert [rank["exit_code"] for rank in end["ranks"]] == [None, None]
    assert real_host.processes(order) == []
