"""What gang queues have used: dominant shares of pools x seconds, of which the past counts for less and less."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, and_, func, insert, select, update

from gang_ledgers.sql_bulk import update_each
from gang_ledgers.sql_codec import PLACEMENT
from gang_ledgers.sql_engine import latest_time, writing
from gang_ledgers.sql_rows import request_of
from gang_ledgers.sql_tables import attempts, queue_usage, submissions
from gang_scheduler.gang import GangRequest, Placement
from gang_scheduler.node import NodeView
from gang_scheduler.resources import Resources

_OF_ITS_SUBMISSION = and_(
    submissions.c.gang_id == attempts.c.gang_id, submissions.c.submission == attempts.c.submission
)
# One whose end was never seen holds its slots until its submission is over.
_ENDED_AT = func.coalesce(attempts.c.ended_at, submissions.c.ended_at)
_ATTEMPT = (attempts.c.gang_id, attempts.c.submission, attempts.c.attempt)


@dataclass(frozen=True, slots=True)
class Use:
    """A queue held `share` of a pool from one instant until another."""

    queue: str
    share: float
    since: datetime
    until: datetime

    def decayed(self, as_of: datetime, half_life: timedelta) -> float:
        """Share x seconds, each second counting by its distance from `as_of`: the integral of the decay over it."""
        life_s = half_life.total_seconds() / math.log(2)
        began, ended = (as_of - self.since).total_seconds(), (as_of - self.until).total_seconds()
        return self.share * life_s * (math.exp(-ended / life_s) - math.exp(-began / life_s))


def decay(usage: float, since: datetime, as_of: datetime, half_life: timedelta) -> float:
    """What is left of a usage."""
    return float(usage * 0.5 ** ((as_of - since) / half_life))


def capacity_of(nodes: Iterable[NodeView]) -> dict[str, Resources]:
    """What each pool's nodes hold together."""
    total: dict[str, Resources] = {}
    for node in nodes:
        total[node.pool] = total.get(node.pool, Resources()) + node.capacity
    return total


def share_of(request: GangRequest, placement: Placement, capacity: Mapping[str, Resources]) -> float:
    """The largest of the parts that the workers hold of their pool's CPUs, memory and GPUs."""
    each = {group.name: group.each for group in request.worker_groups}
    held = Resources()
    for placed in placement.workers:
        held = held + each[placed.group] * placed.workers
    pool = capacity.get(placement.pool, Resources())
    parts = ((held.cpus, pool.cpus), (held.memory_gib, pool.memory_gib), (held.gpu_count, pool.gpu_count))
    return max((amount / whole for amount, whole in parts if whole > 0), default=0.0)


def charge_ended(engine: Engine, half_life: timedelta, capacity: Mapping[str, Resources]) -> None:
    """Add the use of attempts that have ended to that of their queues, each of them once."""
    with writing(engine) as connection:
        query = (
            select(attempts.c.placement, attempts.c.admitted_at, *_ATTEMPT)
            .add_columns(submissions.c.request, _ENDED_AT.label("until"))
            .join(submissions, _OF_ITS_SUBMISSION)
            .where(attempts.c.charged_at.is_(None), _ENDED_AT.is_not(None))
            .with_for_update(of=attempts, skip_locked=True)
        )
        rows = connection.execute(query).all()
        if not rows:
            return
        now = latest_time(connection)
        uses = []
        for row in rows:
            request, placement = request_of(row), PLACEMENT.validate_json(row.placement)
            share = share_of(request, placement, capacity)
            uses.append(Use(request.gang_queue, share, row.admitted_at, row.until))
        _add(connection, uses, now, half_life)
        charged = {(row.gang_id, row.submission, row.attempt): {"charged_at": now} for row in rows}
        update_each(connection, attempts, _ATTEMPT, charged)


def _add(connection: Connection, uses: Iterable[Use], now: datetime, half_life: timedelta) -> None:
    added: dict[str, float] = {}
    for use in uses:
        added[use.queue] = added.get(use.queue, 0.0) + use.decayed(now, half_life)
    known = {row.queue: row for row in connection.execute(select(queue_usage).with_for_update())}
    for queue, usage in added.items():
        if queue in known:
            left = decay(known[queue].usage, known[queue].as_of, now, half_life)
            written = update(queue_usage).where(queue_usage.c.queue == queue).values(usage=left + usage, as_of=now)
            connection.execute(written)
        else:
            connection.execute(insert(queue_usage).values(queue=queue, usage=usage, as_of=now))


def usage_by_queue(
    connection: Connection, now: datetime, half_life: timedelta, held: Iterable[Use]
) -> dict[str, float]:
    """What was charged before, decayed, and what is held now."""
    usage = {row.queue: decay(row.usage, row.as_of, now, half_life) for row in connection.execute(select(queue_usage))}
    for use in held:
        usage[use.queue] = usage.get(use.queue, 0.0) + use.decayed(now, half_life)
    return usage


def uncharged(connection: Connection) -> Sequence[Any]:
    """All attempts that run, and those that have ended since the last charge; `until` is None of those that run.

    With them comes what a supervisor writes without a change of the ledger.
    """
    columns = (*_ATTEMPT, attempts.c.lease_expires_at, attempts.c.saved_at, _ENDED_AT.label("until"))
    query = select(*columns).join(submissions, _OF_ITS_SUBMISSION).where(attempts.c.charged_at.is_(None))
    return connection.execute(query).all()
