"""What people do to a gang that waits or runs: hold it back, let it go on, queue it again."""

from __future__ import annotations

from gang_ledgers.ledger import GangHasEnded, UnknownGang
from gang_ledgers.sql_change import Change
from gang_ledgers.sql_rows import SubmissionRow, key_of, newest
from gang_scheduler.gang_state import ENDED, HOLDS_CAPACITY, GangState


def hold(change: Change, gang_id: str, who: str, why: str) -> None:
    """Keep it from being admitted."""
    row = _live(change, gang_id, "held")
    said = f"{why} ({who})"
    if row.is_held and row.held_why == said:
        return
    change.set(row, is_held=True, held_why=said)
    change.tell(key_of(row), "held", f"not admitted until the hold is lifted: {said}", who=who, why=why)


def lift_hold(change: Change, gang_id: str, who: str, why: str) -> None:
    """Let it be admitted again; one that rests may be freed of its hold as well."""
    row = newest(change.connection, gang_id)
    if row is None or not row.is_held:
        _live(change, gang_id, "let go")
        return
    change.set(row, is_held=False, held_why="")
    change.tell(key_of(row), "hold-lifted", f"may be admitted again: {why} ({who})", who=who, why=why)


def requeue(change: Change, gang_id: str, who: str, why: str) -> None:
    """Ask its attempt to stop without a release, so that the next one is queued; lift a waiting one's back-off."""
    row = _live(change, gang_id, "queued again")
    said = f"{why} ({who})"
    if GangState(row.state) not in HOLDS_CAPACITY:
        change.set(row, not_before=None)
        change.tell(key_of(row), "requeue-asked", f"it waits already; its back-off is lifted: {said}", who=who, why=why)
        return
    if not row.stop_is_requested:
        change.set(row, stop_is_requested=True, stop_why=f"to be queued again: {said}")
    change.tell(key_of(row), "requeue-asked", f"stops with a checkpoint and is queued again: {said}", who=who, why=why)


def _live(change: Change, gang_id: str, asked: str) -> SubmissionRow:
    row = newest(change.connection, gang_id)
    if row is None:
        raise UnknownGang(f"no gang '{gang_id}' was ever asked for; `phalanx gangs list` shows all")
    if GangState(row.state) in ENDED:
        raise GangHasEnded(
            f"gang '{gang_id}' can't be {asked}: its submission {row.submission} {_ended(GangState(row.state))} at "
            f"{row.ended_at:%Y-%m-%d %H:%M:%S} UTC. To run it again, clear its task in Airflow"
        )
    return row


def _ended(state: GangState) -> str:
    return {GangState.SUCCEEDED: "succeeded", GangState.FAILED: "failed"}.get(state, "was interrupted")
