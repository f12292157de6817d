"""Facts of an attempt's end in, verdict out: the cause, how sure it is, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from gang_scheduler.root_cause import echoes_a_lost_peer, fatally_killed, killed_ranks, root_error
from gang_scheduler.signals import name_of_end
from gang_scheduler.verdict import CLASS_OF, AttemptEnd, Cause, CauseClass, RankOutcome, Verdict

DONE, BAD_SPEC, BAD_DATA, PROGRAM_ERROR, INTERRUPTED = 0, 64, 65, 70, 75

_NEXT_ACT = {
    CauseClass.SUCCESS: "finish",
    CauseClass.USER: "fail",
    CauseClass.INFRASTRUCTURE: "relaunch",
    CauseClass.REQUESTED: "rest",
}
_CAUSE_OF_CODE = {BAD_SPEC: Cause.BAD_SPEC, BAD_DATA: Cause.BAD_DATA, PROGRAM_ERROR: Cause.PROGRAM_ERROR}
_CALLED = {
    Cause.BAD_SPEC: "the run spec is not usable",
    Cause.BAD_DATA: "its data are not usable",
    Cause.PROGRAM_ERROR: "the program failed",
}
LOG_LINES = 5


def judge(end: AttemptEnd) -> Verdict:
    """Say why the attempt ended; the first rule that applies decides.

    What a rank said of itself outranks what its agent saw: torchrun ends with 1 whatever the ranks' codes were. A
    killed rank outranks the errors of its peers that merely lost it, but not an error of the program's own.
    """
    if end.forced_cause is not None:
        return _verdict(
            end, end.forced_cause, 1.0, f"{end.forced_cause}: {end.proof}" if end.proof else end.forced_cause
        )
    if end.was_superseded:
        return _verdict(end, Cause.SUPERSEDED, 1.0, "a newer attempt of this submission exists; this one stepped back")
    if end.agent_exit_code == DONE:
        return _verdict(end, Cause.DONE, 1.0, f"done{_at_step(end)}")
    error = root_error(end.ranks)
    if error is not None:
        return _program(end, error)
    if end.was_asked_to_stop:
        return _stopped(end)
    is_told_to_stop = any(rank.exit_code == INTERRUPTED for rank in end.ranks) or end.agent_exit_code == INTERRUPTED
    if is_told_to_stop and not fatally_killed(end.ranks):
        return _verdict(
            end,
            Cause.STOPPED_BY_OTHERS,
            0.8,
            f"the ranks were told to stop{_at_step(end)}, by a signal that came neither from the scheduler nor from a "
            f"person who asked it; {_kept(end)}",
        )
    return _lost(end)


def _program(end: AttemptEnd, rank: RankOutcome) -> Verdict:
    cause = _CAUSE_OF_CODE.get(rank.exit_code or 0, Cause.PROGRAM_ERROR)
    is_in_contract = rank.exit_code in _CAUSE_OF_CODE
    said = f"{rank.error_type}: {rank.error_message}" if rank.error_type else "it left no error message"
    sentence = f"{_CALLED[cause]}: rank {rank.rank} ended with exit code {rank.exit_code}{_at_step(end)} ({said})"
    if not is_in_contract:
        sentence += "; the run contract does not know that code, so it counts as a program error"
    return _verdict(end, cause, 1.0 if is_in_contract else 0.6, sentence)


def _stopped(end: AttemptEnd) -> Verdict:
    ranks = [rank.exit_code for rank in end.ranks]
    is_clean = (bool(ranks) and all(code == INTERRUPTED for code in ranks)) or end.agent_exit_code == INTERRUPTED
    if is_clean:
        return _verdict(end, Cause.INTERRUPTED, 1.0, f"stopped on request{_at_step(end)}; {_kept(end)}")
    return _verdict(
        end,
        Cause.INTERRUPTED,
        0.8,
        f"stopped on request{_at_step(end)}, but not all ranks said that they had saved; {_kept(end)}",
    )


def _lost(end: AttemptEnd) -> Verdict:
    killed = killed_ranks(end.ranks)
    if killed and not _died_with_its_agent(end, killed):
        return _rank_killed(end, killed[0])
    agent = end.agent_exit_code
    if agent is None:
        return _verdict(end, Cause.SUPERVISOR_LOST, 0.9, f"nobody saw the attempt end{_at_step(end)}; {_kept(end)}")
    if agent < 0 or agent > 128:
        return _verdict(
            end,
            Cause.AGENT_KILLED,
            0.95,
            f"the torchrun agent was {name_of_end(agent)}{_at_step(end)}; {_silence(end)}; {_kept(end)}",
        )
    if agent in _CAUSE_OF_CODE:  # a program that runs without torchrun
        cause = _CAUSE_OF_CODE[agent]
        return _verdict(end, cause, 0.8, f"{_CALLED[cause]}: it ended with exit code {agent}{_at_step(end)}")
    if any(echoes_a_lost_peer(rank) for rank in end.ranks):
        return _verdict(
            end,
            Cause.UNKNOWN,
            0.5,
            f"the ranks lost contact with each other{_at_step(end)}, and none of them says why; {_kept(end)}",
        )
    return _verdict(
        end,
        Cause.UNKNOWN,
        0.4,
        f"the torchrun agent ended with exit code {agent}{_at_step(end)}, and no rank left word of its end; "
        f"{_kept(end)}",
    )


def _died_with_its_agent(end: AttemptEnd, killed: Sequence[RankOutcome]) -> bool:
    """True if the ranks have no end of their own, so that the agent's is the one to name."""
    is_agent_killed = end.agent_exit_code is None or end.agent_exit_code < 0 or end.agent_exit_code > 128
    return is_agent_killed and all(rank.exit_code is None for rank in killed)


def _rank_killed(end: AttemptEnd, rank: RankOutcome) -> Verdict:
    if rank.exit_code is None:
        how, confidence = "ended without a word (killed, as far as can be seen)", 0.7
    else:
        how, confidence = f"was {name_of_end(rank.exit_code)}", 0.95
    sentence = f"rank {rank.rank} {how}{_at_step(end)}; {_silence(end)}; {_kept(end)}"
    return _verdict(end, Cause.RANK_KILLED, confidence, sentence)


def _silence(end: AttemptEnd) -> str:
    """What the log says of a kill, which is mostly nothing."""
    lowered = end.log_tail.lower()
    if "out of memory" in lowered or "oom" in lowered.split():
        return "its log speaks of memory running out"
    return "nothing in its log says why"


def _at_step(end: AttemptEnd) -> str:
    return f" at step {end.last_step}" if end.last_step is not None else ""


def _kept(end: AttemptEnd) -> str:
    if end.last_committed_step is None:
        return "no checkpoint was committed"
    return f"last committed checkpoint: step {end.last_committed_step}"


def _verdict(end: AttemptEnd, cause: Cause, confidence: float, sentence: str) -> Verdict:
    return Verdict(cause, confidence, sentence, _NEXT_ACT[CLASS_OF[cause]], _evidence(end))


def _evidence(end: AttemptEnd) -> tuple[str, ...]:
    lines = [end.proof] if end.proof else []
    if end.agent_exit_code is not None:
        lines.append(f"torchrun agent: {name_of_end(end.agent_exit_code)}")
    for rank in sorted(end.ranks, key=lambda rank: rank.rank):
        said = f" ({rank.error_type}: {rank.error_message})" if rank.error_type else ""
        how = "left no word" if rank.exit_code is None else name_of_end(rank.exit_code)
        lines.append(f"rank {rank.rank}: {how}{said}")
    tail = [line.rstrip() for line in end.log_tail.splitlines() if line.strip()]
    lines += [f"log: {line}" for line in tail[-LOG_LINES:]]
    return tuple(lines)
