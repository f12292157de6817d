"""Reports as torchrun 2.13 prints them; that it still does is tested against the real one in test_torchrun.py."""

from __future__ import annotations

from gang_backends.local_process.agent_report import AgentReport, RankFailure, parse

TABLE = """\
W1201 02:51:02.257000 15667 torch/distributed/elastic/multiprocessing/api.py:1002] Sending process 16 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
/opt/phalanx/tether.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-12-01_02:51:02
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 16) (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 16
[2]:
  time      : 2026-12-01_02:51:02
  host      : localhost
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 18) 
  error_file: /runs/launch-1/torchrun/attempt-1_x/attempt_0/2/error.json
  traceback : Traceback (most recent call last):
    File "train.py", line 7, in main
      step()
  RuntimeError: Connection closed by peer
  
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_02:51:02
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 17) (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 17
============================================================
"""  # noqa: W291, W293, E501 - as it is printed


def test_first_observed_failure_comes_first() -> None:
    report = parse(TABLE)
    assert report.root_rank == 1
    assert report.failures[0] == RankFailure(1, -9, 17, "Signal 9 (SIGKILL) received by PID 17")
    assert report.failures[1] == RankFailure(0, -15, 16, "Signal 15 (SIGTERM) received by PID 16")


def test_traceback_is_whole_when_it_was_recorded() -> None:
    recorded = parse(TABLE).failures[2]
    assert (recorded.rank, recorded.exit_code) == (2, 1)
    assert recorded.message.splitlines() == [
        "Traceback (most recent call last):",
        '  File "train.py", line 7, in main',
        "    step()",
        "RuntimeError: Connection closed by peer",
    ]


def test_message_is_empty_when_torchrun_has_nothing_to_show() -> None:
    text = TABLE.replace("Signal 9 (SIGKILL) received by PID 17", "To enable traceback see: https://pytorch.org/x")
    assert parse(text).failures[0].message == ""


def test_root_is_alone_when_no_other_rank_failed() -> None:
    others = TABLE[
        TABLE.index("[1]:") : TABLE.index("------------------------------------------------------------\nRoot")
    ]
    report = parse(TABLE.replace(others, "  <NO_OTHER_FAILURES>\n"))
    assert report.failures == (RankFailure(1, -9, 17, "Signal 9 (SIGKILL) received by PID 17"),)


def test_report_is_empty_when_the_agent_said_nothing_of_ranks() -> None:
    assert parse("") == AgentReport()
    assert parse("SignalException: Process 15667 got signal: 15\n") == AgentReport()
    assert parse(TABLE[: TABLE.index("Root Cause")]) == AgentReport(), "torn off"
