"""Writes what a plan decided; the caller has checked that nothing has changed since the plan's snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, singledispatch
from typing import Any

from sqlalchemy import Select, select

from gang_ledgers.sql_bulk import in_parts, is_one_of
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_codec import PLACEMENT, VERDICT, decode, encode
from gang_ledgers.sql_learning import Run, learn
from gang_ledgers.sql_rows import SubmissionRow, key_of, request_of, with_attempt
from gang_ledgers.sql_tables import attempts, nodes, submissions
from gang_scheduler.actions import Action, Admit, AskStop, Finish, Lapse, MarkUnknown, Requeue, Wait
from gang_scheduler.gang_state import Clock, GangState
from gang_scheduler.judge import judge
from gang_scheduler.verdict import AttemptEnd, Cause, CauseClass

# The supervisor kills at the end of the grace period; this much later its report should have come.
REPORT_WITHIN = timedelta(seconds=15)

_OF_SUBMISSION = (
    *("gang_id", "submission", "dag_id", "digest", "attempt", "state", "state_since", "stop_why", "limit_verdict"),
    *("verdict", "verdict_is_pending", "infrastructure_ends", *(f"{clock.value}_s" for clock in Clock)),
)
_OF_ATTEMPT = ("attempt", "placement", "host_id", "started_at", "ended_at", "lease_expires_at")
_NEEDED = (
    *(submissions.c[name] for name in _OF_SUBMISSION),
    *(attempts.c[name].label(f"a_{name}") for name in _OF_ATTEMPT),
)
_NO_STOP = {"stop_is_requested": False, "stop_why": "", "stop_deadline": None}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the actions are about, read before any is written; hosts are found by pool and node."""

    rows: dict[tuple[str, int], SubmissionRow]
    hosts: Mapping[tuple[str, str], str]
    graces: dict[tuple[str, int], timedelta]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a snapshot of the version that was planned on has read already: hosts by pool and node, runs by task."""

    hosts: Mapping[tuple[str, str], str]
    runs: Mapping[str, str]


def apply_all(change: Change, actions: Sequence[Action], facts: Facts | None = None) -> None:
    """Write every action, in a few statements for all of them; without `facts`, they are read."""
    hosts = _hosts_of(change, actions) if facts is None else facts.hosts
    known = _Known(_rows_of(change, actions), hosts, _graces_of(change, actions))
    for action in actions:
        row = known.rows.get((action.key.gang_id, action.key.submission))
        assert row is not None, f"planned for {action.key}, which the ledger does not have"
        apply(action, change, row, known)
    learn(change, _runs(actions, known), None if facts is None else facts.runs)


def _rows_of(change: Change, actions: Iterable[Action]) -> dict[tuple[str, int], SubmissionRow]:
    gang_ids = list(dict.fromkeys(action.key.gang_id for action in actions))
    rows: dict[tuple[str, int], SubmissionRow] = {}
    for part in in_parts(gang_ids):
        query = _read().where(is_one_of(change.connection, submissions.c.gang_id, part))
        rows |= {(row.gang_id, row.submission): row for row in change.connection.execute(query)}
    return rows


@cache
def _read() -> Select[Any]:
    """Only what the actions need."""
    return with_attempt().with_only_columns(*_NEEDED, maintain_column_froms=True)


def _hosts_of(change: Change, actions: Iterable[Action]) -> dict[tuple[str, str], str]:
    names = list(dict.fromkeys(act.placement.workers[0].node for act in actions if isinstance(act, Admit)))
    hosts: dict[tuple[str, str], str] = {}
    for part in in_parts(names):
        query = select(nodes.c.pool, nodes.c.node, nodes.c.host_id).where(
            is_one_of(change.connection, nodes.c.node, part)
        )
        hosts |= {(row.pool, row.node): row.host_id for row in change.connection.execute(query)}
    return hosts


def _graces_of(change: Change, actions: Iterable[Action]) -> dict[tuple[str, int], timedelta]:
    """How long those that are asked to stop may take."""
    gang_ids = list(dict.fromkeys(action.key.gang_id for action in actions if isinstance(action, AskStop)))
    graces: dict[tuple[str, int], timedelta] = {}
    for part in in_parts(gang_ids):
        columns = (submissions.c.gang_id, submissions.c.submission, submissions.c.request)
        query = select(*columns).where(is_one_of(change.connection, submissions.c.gang_id, part))
        graces |= {(row.gang_id, row.submission): request_of(row).grace for row in change.connection.execute(query)}
    return graces


def _runs(actions: Iterable[Action], known: _Known) -> Iterable[Run]:
    """What can be learned from: submissions that ran to their end."""
    for action in actions:
        if isinstance(action, Finish) and action.state is GangState.SUCCEEDED:
            row = known.rows[action.key.gang_id, action.key.submission]
            yield Run(row.gang_id, row.dag_id, row.digest, row.running_s)


@singledispatch
def apply(action: Action, change: Change, row: SubmissionRow, known: _Known) -> None:  # noqa: ARG001 - others use them
    """Write one action."""
    raise TypeError(f"no such action: {action!r}")


@apply.register
def _(action: Admit, change: Change, row: SubmissionRow, known: _Known) -> None:
    placement = action.placement
    host_id = known.hosts[placement.pool, placement.workers[0].node]
    change.add_attempt(
        action.key,
        placement=encode(PLACEMENT, placement),
        host_id=host_id,
        admitted_at=change.now,
        start_by=change.now + action.start_within,
        backend_ref="",
    )
    change.enter(
        row,
        GangState.ADMITTED,
        attempt=action.key.attempt,
        not_before=None,
        wait_reason="",
        wait_sentence="",
        **_NO_STOP,
    )
    change.put_out("launch", action.key, placement.pool, host_id)
    change.tell(action.key, "admitted", action.sentence, pool=placement.pool, nodes=placement.nodes)


@apply.register
def _(action: Wait, change: Change, row: SubmissionRow, known: _Known) -> None:  # noqa: ARG001
    change.set(row, wait_reason=action.reason.value, wait_sentence=action.sentence)
    change.tell(action.key, "waiting", action.sentence, reason=action.reason)


@apply.register
def _(action: Requeue, change: Change, row: SubmissionRow, known: _Known) -> None:  # noqa: ARG001
    verdict = decode(VERDICT, row.verdict) if row.verdict_is_pending else None
    is_recovery = verdict is not None and verdict.cause_class is not CauseClass.REQUESTED
    _close_attempt(change, row)
    change.enter(
        row,
        GangState.RECOVERING if is_recovery else GangState.QUEUED,
        not_before=change.now + action.back_off,
        verdict_is_pending=False,
        wait_reason="",
        wait_sentence="",
        **_NO_STOP,
    )
    cause = verdict.cause if verdict else Cause.INTERRUPTED
    change.tell(action.key, "requeued", action.sentence, cause=cause, back_off_s=action.back_off.total_seconds())


@apply.register
def _(action: Finish, change: Change, row: SubmissionRow, known: _Known) -> None:  # noqa: ARG001
    if GangState(row.state) is not GangState.UNKNOWN:  # the end of that one is not known, and may yet be reported
        _close_attempt(change, row)
    change.take_back(action.key)
    change.enter(
        row,
        action.state,
        verdict=encode(VERDICT, action.verdict),
        verdict_is_pending=False,
        not_before=None,
        wait_reason="",
        wait_sentence="",
    )
    change.tell(action.key, "finished", action.sentence, state=action.state, cause=action.verdict.cause)


@apply.register
def _(action: AskStop, change: Change, row: SubmissionRow, known: _Known) -> None:
    state = GangState(row.state)
    change.enter(
        row,
        state if state is GangState.UNKNOWN else GangState.STOPPING,
        stop_is_requested=True,
        stop_why=row.stop_why or action.sentence,
        stop_deadline=change.now + known.graces[row.gang_id, row.submission] + REPORT_WITHIN,
        limit_verdict=encode(VERDICT, action.verdict) if action.verdict else row.limit_verdict,
    )
    change.put_out("stop", action.key, _pool_of(row), row.a_host_id)
    change.tell(action.key, "stop-asked", action.sentence, reason=action.reason)


@apply.register
def _(action: MarkUnknown, change: Change, row: SubmissionRow, known: _Known) -> None:  # noqa: ARG001
    # A renewal does not raise the version, so it may have come since the snapshot.
    if row.a_lease_expires_at is None or row.a_lease_expires_at > change.now:
        return
    change.enter(row, GangState.UNKNOWN)
    change.put_out("probe", action.key, _pool_of(row), row.a_host_id)
    change.tell(action.key, "lease-expired", action.sentence)


@apply.register
def _(action: Lapse, change: Change, row: SubmissionRow, known: _Known) -> None:  # noqa: ARG001
    end = AttemptEnd(None, forced_cause=Cause.LAPSED, proof=action.sentence)
    verdict = encode(VERDICT, judge(end))
    change.set_attempt(action.key, ended_at=change.now, verdict=verdict)
    change.take_back(action.key)
    change.enter(
        row,
        GangState.RECOVERING,
        verdict=verdict,
        verdict_is_pending=True,
        infrastructure_ends=row.infrastructure_ends + 1,
    )
    change.tell(action.key, "lapsed", action.sentence)


def _close_attempt(change: Change, row: SubmissionRow) -> None:
    """An attempt that was granted and never started is void; its launch is not carried out any more."""
    if row.a_attempt is None or row.a_ended_at is not None or row.a_started_at is not None:
        return
    change.set_attempt(key_of(row), ended_at=change.now)
    change.take_back(key_of(row))


def _pool_of(row: SubmissionRow) -> str:
    """The pool in which the attempt runs, which may be one that its gang falls back to."""
    placement = decode(PLACEMENT, row.a_placement)
    assert placement is not None
    return placement.pool
