from __future__ import annotations

import pytest

from gang_scheduler.judge import judge
from gang_scheduler.verdict import AttemptEnd, Cause, CauseClass, RankOutcome

LOST_PEER = ("RuntimeError", "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:41234")


def ranks(*codes: int | None) -> tuple[RankOutcome, ...]:
    return tuple(RankOutcome(rank, code) for rank, code in enumerate(codes))


def echo(rank: int) -> RankOutcome:
    return RankOutcome(rank, 70, *LOST_PEER)


CASES = [
    pytest.param(AttemptEnd(0, ranks(0, 0)), Cause.DONE, id="all ranks done"),
    pytest.param(
        AttemptEnd(1, (RankOutcome(0, 64, "BadRunSpec", "no such recipe"), *ranks(None)[:0])), Cause.BAD_SPEC, id="64"
    ),
    pytest.param(AttemptEnd(1, (RankOutcome(0, 65, "BadData", "part-0 is torn"),)), Cause.BAD_DATA, id="65"),
    pytest.param(
        AttemptEnd(1, (RankOutcome(1, 70, "ValueError", "nan"), RankOutcome(0, -15))), Cause.PROGRAM_ERROR, id="70"
    ),
    pytest.param(
        AttemptEnd(1, (RankOutcome(1, 70, "ValueError", "nan"), RankOutcome(0, -9))),
        Cause.PROGRAM_ERROR,
        id="own error outranks a peer that was torn down",
    ),
    pytest.param(
        AttemptEnd(1, (RankOutcome(0, 1), RankOutcome(1, -15))), Cause.PROGRAM_ERROR, id="code of nobody's contract"
    ),
    pytest.param(AttemptEnd(1, (echo(0), RankOutcome(1, -9))), Cause.RANK_KILLED, id="killed outranks the echo"),
    pytest.param(AttemptEnd(1, (echo(0), RankOutcome(1, None))), Cause.RANK_KILLED, id="silent outranks the echo"),
    pytest.param(
        AttemptEnd(1, (RankOutcome(0, 75), RankOutcome(1, -9))), Cause.RANK_KILLED, id="killed outranks a saved peer"
    ),
    pytest.param(AttemptEnd(1, (echo(0), RankOutcome(1, 137))), Cause.RANK_KILLED, id="137 is a kill"),
    pytest.param(AttemptEnd(1, (echo(0), RankOutcome(1, -11))), Cause.RANK_KILLED, id="segmentation fault"),
    pytest.param(AttemptEnd(1, (echo(0), echo(1))), Cause.UNKNOWN, id="only echoes"),
    pytest.param(AttemptEnd(-9, ranks(None, None)), Cause.AGENT_KILLED, id="agent killed"),
    pytest.param(AttemptEnd(137, ()), Cause.AGENT_KILLED, id="agent 137"),
    pytest.param(AttemptEnd(None, ranks(None, None)), Cause.SUPERVISOR_LOST, id="nobody saw it end"),
    pytest.param(
        AttemptEnd(None, ranks(-9, None)), Cause.RANK_KILLED, id="nobody saw it end, a rank is known to be killed"
    ),
    pytest.param(AttemptEnd(1, ranks(75, 75), was_asked_to_stop=True), Cause.INTERRUPTED, id="stopped on request"),
    pytest.param(
        AttemptEnd(-15, ranks(75, 75), was_asked_to_stop=True), Cause.INTERRUPTED, id="stopped, agent by SIGTERM"
    ),
    pytest.param(AttemptEnd(1, ranks(-9, None), was_asked_to_stop=True), Cause.INTERRUPTED, id="stopped, grace over"),
    pytest.param(
        AttemptEnd(1, (RankOutcome(0, 70, "OSError", "No space left on device"),), was_asked_to_stop=True),
        Cause.PROGRAM_ERROR,
        id="could not save when stopped",
    ),
    pytest.param(AttemptEnd(1, ranks(75, 75)), Cause.STOPPED_BY_OTHERS, id="75 though nobody asked"),
    pytest.param(AttemptEnd(1, ranks(75, -15)), Cause.STOPPED_BY_OTHERS, id="75 and a torn-down peer"),
    pytest.param(AttemptEnd(1, ranks(75, 75), was_superseded=True), Cause.SUPERSEDED, id="superseded"),
    pytest.param(AttemptEnd(1, ()), Cause.UNKNOWN, id="no word at all"),
    pytest.param(AttemptEnd(65, ()), Cause.BAD_DATA, id="no torchrun, 65"),
    pytest.param(AttemptEnd(75, (), was_asked_to_stop=True), Cause.INTERRUPTED, id="no torchrun, 75"),
    pytest.param(AttemptEnd(None, forced_cause=Cause.LAUNCH_FAILED, proof="no disk"), Cause.LAUNCH_FAILED, id="forced"),
    pytest.param(AttemptEnd(0, ranks(0, 0), forced_cause=Cause.NODE_LOST), Cause.NODE_LOST, id="forced outranks all"),
]


@pytest.mark.parametrize(("end", "cause"), CASES)
def test_cause_is_found_when_an_attempt_ends_so(end: AttemptEnd, cause: Cause) -> None:
    verdict = judge(end)
    assert verdict.cause is cause
    assert 0 < verdict.confidence <= 1


@pytest.mark.parametrize(("end", "cause"), CASES)
def test_next_act_follows_the_class_of_the_cause(end: AttemptEnd, cause: Cause) -> None:
    acts = {
        CauseClass.SUCCESS: "finish",
        CauseClass.USER: "fail",
        CauseClass.INFRASTRUCTURE: "relaunch",
        CauseClass.REQUESTED: "rest",
    }
    verdict = judge(end)
    assert verdict.next_act == acts[verdict.cause_class]


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        pytest.param(
            AttemptEnd(1, (echo(0), RankOutcome(1, -9)), last_step=57, last_committed_step=50),
            "rank 1 was killed by SIGKILL at step 57; nothing in its log says why; last committed checkpoint: step 50",
            id="killed rank",
        ),
        pytest.param(
            AttemptEnd(1, (echo(0), RankOutcome(1, -9)), log_tail="...\nCUDA out of memory\n"),
            "rank 1 was killed by SIGKILL; its log speaks of memory running out; no checkpoint was committed",
            id="killed rank, memory",
        ),
        pytest.param(
            AttemptEnd(-9, ranks(None, None), last_step=3),
            "the torchrun agent was killed by SIGKILL at step 3; nothing in its log says why; "
            "no checkpoint was committed",
            id="killed agent",
        ),
        pytest.param(
            AttemptEnd(1, (RankOutcome(0, 65, "TornPartition", "day=2013-01-03: part-0.parquet is missing"),)),
            "its data are not usable: rank 0 ended with exit code 65 "
            "(TornPartition: day=2013-01-03: part-0.parquet is missing)",
            id="bad data",
        ),
        pytest.param(
            AttemptEnd(1, ranks(75, 75), was_asked_to_stop=True, last_step=60, last_committed_step=60),
            "stopped on request at step 60; last committed checkpoint: step 60",
            id="stopped",
        ),
        pytest.param(
            AttemptEnd(None, forced_cause=Cause.SUPERVISOR_LOST, proof="pid 77 is gone on this boot"),
            "supervisor lost: pid 77 is gone on this boot",
            id="forced, with its proof",
        ),
    ],
)
def test_sentence_tells_a_person_what_happened(end: AttemptEnd, sentence: str) -> None:
    assert judge(end).sentence == sentence


def test_evidence_lists_every_end_and_the_last_lines_of_the_log() -> None:
    end = AttemptEnd(
        1, (RankOutcome(1, -9), echo(0)), proof="supervisor saw the agent exit", log_tail="a\n\nb\nc\nd\ne\nf\n"
    )
    assert judge(end).evidence == (
        "supervisor saw the agent exit",
        "torchrun agent: ended with exit code 1",
        f"rank 0: ended with exit code 70 ({LOST_PEER[0]}: {LOST_PEER[1]})",
        "rank 1: killed by SIGKILL",
        *(f"log: {line}" for line in "bcdef"),
    )
