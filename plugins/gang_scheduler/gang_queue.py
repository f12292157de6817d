"""Gang queues: who may use how much of which pool, and whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from gang_scheduler.pool import DailyWindow


@dataclass(frozen=True, slots=True)
class Quota:
    """How much of one resource of one pool (the flavour) a queue owns, may borrow of its cohort, and lends to it.

    `resource` is `"gpus"` (whole ones and shares), `"cpus"` or `"memory_gib"`. None is no limit for `borrow`, and all
    of `nominal` for `lend`.
    """

    pool: str
    resource: str
    nominal: float
    borrow: float | None = None
    lend: float | None = None


@dataclass(frozen=True, slots=True)
class QueueView:
    """A gang queue.

    A pool and resource without a quota of the queue is free to it. `weight` is its share in contention. `usage` is its
    decayed usage history, in dominant shares x seconds: a queue that used more waits behind one that used less.
    Outside its `windows` (none: always open) a queue admits nothing; with `harvests_only` it borrows, and is evicted
    first. `max_gangs` and `max_gpus` cap what it holds at one time, whatever is free (0: no cap).
    """

    name: str
    cohort: str = ""
    quotas: tuple[Quota, ...] = ()
    weight: float = 1.0
    usage: float = 0.0
    windows: tuple[DailyWindow, ...] = ()
    harvests_only: bool = False
    max_gangs: int = 0
    max_gpus: float = 0.0
    dag_ids: tuple[str, ...] = field(default=())  # patterns of `fnmatch`; empty: any


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A name for a priority that authors may give."""

    name: str
    priority: int
