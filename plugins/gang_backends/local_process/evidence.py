"""Gathers the facts of an attempt from the files that it left; judges nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from gang_backends.local_process.agent_report import AgentReport, parse
from gang_backends.local_process.launch_folder import Ended, Order, launch_folder, read_json
from gang_backends.local_process.traceback_text import last_error
from gang_backends.rank_log import rank_log
from gang_scheduler.progress import Progress
from gang_scheduler.verdict import AttemptEnd, Cause, RankOutcome

LOG_TAIL_LINES = 40
LOG_TAIL_BYTES = 64 * 1024
ERROR_CHARACTERS = 20_000
SIGTERM_ENDED = -15
TERMINATED_BY_AGENT = "TerminatedByAgent"
N = TypeVar("N", int, float)


def read_progress(run_dir: Path, attempt: int) -> Progress | None:
    """The newest heartbeat if it is this launch's; the one that an earlier launch left says nothing about it."""
    beat = read_json(run_dir / "heartbeat.json")
    if beat is None or beat.get("launch") != attempt:
        return None
    return Progress(
        step=_number(int, beat.get("step")),
        total_steps=_number(int, beat.get("total_steps")),
        samples=_number(int, beat.get("samples")),
        loss=_number(float, beat.get("loss")),
        throughput_samples_per_s=_number(float, beat.get("throughput_samples_per_s")),
        eta_s=_number(float, beat.get("eta_s")),
        last_committed_step=_number(int, beat.get("last_committed_step")),
        claimed_attempt=_number(int, beat.get("attempt")),
        phase=str(beat.get("phase", "")),
    )


def last_committed_step(run_dir: Path) -> int | None:
    """The step of the newest checkpoint with a commit manifest. Whether it verifies is for who resumes from it."""
    names = (path.parent.name for path in run_dir.glob("checkpoints/step-*/commit.json"))
    return max((int(match[1]) for name in names if (match := re.fullmatch(r"step-(\d+)", name))), default=None)


def gather(
    order: Order,
    *,
    agent_exit_code: int | None,
    proof: str,
    was_asked_to_stop: bool = False,
    was_superseded: bool = False,
    cause_if_unfinished: Cause | None = None,
) -> Ended:
    """The facts of an attempt of which nothing runs any more.

    `ranks` has the one that failed first, if that is known, in front of the others. An attempt whose ranks all say
    that they are done and that left a result is done, whatever happened to agent or supervisor afterwards.
    `cause_if_unfinished` is forced on one that can't be judged by its ranks, as not all of them said how they ended.
    """
    run_dir, attempt = Path(order.run_dir), order.key.attempt
    folder = launch_folder(run_dir, attempt)
    report = parse(_read_text(folder / "agent.log"))
    ranks = _ranks(folder, order.workers, report, was_asked_to_stop)
    result = read_json(run_dir / "result.json")
    is_done = agent_exit_code == 0 or (result is not None and all(rank.exit_code == 0 for rank in ranks))
    forced = None if all(rank.exit_code is not None for rank in ranks) else cause_if_unfinished
    if is_done:
        forced = Cause.DONE if agent_exit_code != 0 else None
    progress = read_progress(run_dir, attempt)
    end = AttemptEnd(
        agent_exit_code=agent_exit_code,
        ranks=ranks,
        was_asked_to_stop=was_asked_to_stop,
        was_superseded=was_superseded,
        last_step=progress.step if progress else None,
        last_committed_step=last_committed_step(run_dir),
        proof=proof,
        log_tail=_log_tail(run_dir, attempt, ranks),
        forced_cause=forced,
    )
    return Ended(end, result if is_done else None)


def _ranks(folder: Path, workers: int, report: AgentReport, was_asked_to_stop: bool) -> tuple[RankOutcome, ...]:
    seen = {failure.rank: failure for failure in report.failures}
    outcomes = {}
    for rank in range(workers):
        said = _said_outcome(folder / f"outcome-rank{rank}.json", rank)
        failure = seen.get(rank)
        if said is not None:
            outcomes[rank] = said
        elif failure is None:
            outcomes[rank] = RankOutcome(rank, None)
        else:
            # The agent ends the others with SIGTERM once one has failed: such a rank is a follower, not a cause.
            follows = failure.exit_code == SIGTERM_ENDED and rank != report.root_rank and not was_asked_to_stop
            kind = TERMINATED_BY_AGENT if follows else ""
            outcomes[rank] = RankOutcome(rank, failure.exit_code, kind, failure.message)
            # A program that doesn't know the contract has at least printed why, or recorded it (`@record`).
            printed = last_error(failure.message) or last_error(_read_text(folder / f"rank-{rank}.log", LOG_TAIL_BYTES))
            if failure.exit_code > 0 and printed is not None:
                outcomes[rank] = RankOutcome(rank, failure.exit_code, printed.type, printed.message, printed.traceback)
    root = report.root_rank
    first = [outcomes.pop(root)] if root in outcomes else []
    return (*first, *outcomes.values())


def _said_outcome(path: Path, rank: int) -> RankOutcome | None:
    said = read_json(path)
    if said is None or not isinstance(said.get("exit_code"), int):
        return None
    error = said.get("error")
    if not isinstance(error, Mapping):
        error = {}
    type_, message, trace = (str(error.get(n) or "")[-ERROR_CHARACTERS:] for n in ("type", "message", "traceback"))
    return RankOutcome(rank, said["exit_code"], type_, message, trace)


def _log_tail(run_dir: Path, attempt: int, ranks: tuple[RankOutcome, ...]) -> str:
    """The last lines of the rank that most likely says why: the first that failed, else rank 0."""
    failed = next((rank.rank for rank in ranks if rank.exit_code not in (0, None)), 0)
    lines = _read_text(rank_log(run_dir, attempt, failed), LOG_TAIL_BYTES).splitlines()
    if not lines and all(rank.exit_code is None for rank in ranks):
        # No rank wrote anything: if there is a reason, the agent knows it.
        lines = _read_text(launch_folder(run_dir, attempt) / "agent.log", LOG_TAIL_BYTES).splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:])


def _read_text(path: Path, last_bytes: int = 1024 * 1024) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - last_bytes))
            return file.read().decode(errors="replace").replace("\0", "")  # no database stores NUL in text
    except OSError:
        return ""


def _number(kind: type[N], value: Any) -> N | None:
    return kind(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
