"""What an author says of a gang beyond its workers: checked when the DAG is parsed, and again when it is rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from gang_scheduler.gang import NO_WISHES, NodeWishes, Topology, WorkerGroup

_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class GangTerms:
    """The terms as the author gave them, templates not yet rendered."""

    gang_priority: int | str = 0
    fallback_pools: Sequence[str] | str = ()
    topology: Topology | str | None = None
    wishes: NodeWishes | None = None
    deadline: datetime | str | None = None
    finish_by: str | None = None
    expected_duration: timedelta | None = None
    checkpoint_interval: timedelta | None = None
    storage_gib: float = 0.0
    storage_gbps: float = 0.0

    def wrong(self) -> str | None:
        """What can't be meant, and what to say instead; None if nothing is wrong, as far as is known before a run."""
        if self.deadline is not None and self.finish_by is not None:
            return f"deadline={self.deadline!r} and finish_by={self.finish_by!r} were given; give at most one of them"
        checks = [
            (
                "gang_priority",
                _is_whole(self.gang_priority) or _is_text(self.gang_priority),
                'a whole number, or the name of a priority class such as "high"',
            ),
            ("topology", self.topology is None or _is_level(self.topology), 'a level such as "leaf", or a Topology'),
            (
                "fallback_pools",
                _is_late(self.fallback_pools) or _are_names(self.fallback_pools),
                "different pool names",
            ),
            ("wishes", self.wishes is None or isinstance(self.wishes, NodeWishes), "a NodeWishes"),
            ("deadline", _is_late(self.deadline) or _instant(self.deadline) is not False, _INSTANT),
            ("finish_by", self.finish_by is None or _is_late(self.finish_by) or _is_time(self.finish_by), _CLOCK),
            *((name, _is_length(getattr(self, name)), "a timedelta above 0") for name in _LENGTHS),
            *((name, _is_amount(getattr(self, name)), "a number of at least 0") for name in _AMOUNTS),
        ]
        for name, is_right, allowed in checks:
            if not is_right:
                return f"{name}={getattr(self, name)!r} was given; it must be {allowed}"
        return None

    def check(self, who: str) -> None:
        """Refuse at DAG parse what can't be meant.

        Raises:
            AirflowException: names the task, the value and what to say instead.
        """
        if wrong := self.wrong():
            raise AirflowException(f"{who}: {wrong}.")

    def request_fields(self, context: Context) -> dict[str, Any]:
        """The fields of a `GangRequest`, but its priority, which the settings know.

        Raises:
            AirflowFailException: a template has become something that can't be meant.
        """
        if wrong := self.wrong():
            raise AirflowFailException(f"{wrong}.")
        pools = self.fallback_pools
        return {
            "fallback_pools": tuple(pools.replace(",", " ").split() if isinstance(pools, str) else pools),
            "topology": Topology(self.topology) if isinstance(self.topology, str) else self.topology,
            "wishes": self.wishes or NO_WISHES,
            "deadline": self._deadline(context),
            "expected_duration": self.expected_duration,
            "checkpoint_interval": self.checkpoint_interval,
            "storage_gib": float(self.storage_gib),
            "storage_gbps": float(self.storage_gbps),
        }

    def _deadline(self, context: Context) -> datetime | None:
        if self.finish_by:
            found = _TIME.fullmatch(self.finish_by)
            if found is None:
                raise AirflowFailException(f"finish_by={self.finish_by!r} was asked; it must be {_CLOCK}.")
            run = context["dag_run"]
            began = (run.start_date or run.run_after).astimezone(UTC)
            at = began.replace(hour=int(found.group(1)), minute=int(found.group(2)), second=0, microsecond=0)
            return at if at > began else at + timedelta(days=1)
        if self.deadline is None or self.deadline in ("", "None"):
            return None
        instant = _instant(self.deadline)
        if not isinstance(instant, datetime):
            raise AirflowFailException(f"deadline={self.deadline!r} was asked; it must be {_INSTANT}.")
        return instant.astimezone(UTC)


_LENGTHS = ("expected_duration", "checkpoint_interval")
_AMOUNTS = ("storage_gib", "storage_gbps")
_INSTANT = 'a datetime with a time zone, or text such as "2026-03-01T06:00:00+00:00"'
_CLOCK = 'a time of day in UTC such as "06:00"'


def elastic(groups: Sequence[WorkerGroup], min_workers: int | str | None) -> tuple[WorkerGroup, ...]:
    """The groups; with `min_workers` the only one starts with so many.

    Raises:
        AirflowFailException: the number makes no sense.
    """
    if min_workers in (None, "", "None"):
        return tuple(groups)
    (group,) = groups
    try:
        fewest = int(str(min_workers))
    except ValueError:
        fewest = 0
    if not 1 <= fewest <= group.workers:
        raise AirflowFailException(
            f"min_workers={min_workers!r} was asked; it must be a whole number from 1 to workers, "
            f"which is {group.workers}."
        )
    return (WorkerGroup(group.name, group.workers, group.each, fewest, group.harvests_cpus),)


def min_workers_wrong(min_workers: object, workers: object, worker_groups: Sequence[WorkerGroup]) -> str | None:
    """What can't be meant by `min_workers`, as far as is known at DAG parse."""
    if min_workers is None or _is_late(min_workers):
        return None
    if worker_groups:
        return f"min_workers={min_workers!r} and worker_groups were given; say it of each WorkerGroup"
    is_whole = _is_whole(min_workers) or (isinstance(min_workers, str) and min_workers.isdecimal())
    most = None if _is_late(workers) or workers is None else int(str(workers)) if str(workers).isdecimal() else None
    if not is_whole or int(str(min_workers)) < 1 or (most is not None and int(str(min_workers)) > most):
        return f"min_workers={min_workers!r} was given; it must be a whole number from 1 to workers={workers!r}"
    return None


def priority_asked(gang_priority: int | str) -> int | str:
    """A number, also where a template has made text of it; else the name of a class."""
    if isinstance(gang_priority, str) and re.fullmatch(r"\s*[+-]?\d{1,9}\s*", gang_priority):
        return int(gang_priority)
    return gang_priority


def _is_late(value: object) -> bool:
    """True for what gets its value later: a template, another task's output, what a mapped task is given."""
    return (isinstance(value, str) and "{{" in value) or hasattr(value, "iter_references")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return _is_late(value) or (isinstance(value, str) and bool(value.strip()))


def _is_level(value: object) -> bool:
    return isinstance(value, Topology) or _is_text(value)


def _are_names(value: object) -> bool:
    if isinstance(value, str):  # a rendered template
        value = value.replace(",", " ").split()
    if not isinstance(value, Sequence) or not all(isinstance(name, str) and name for name in value):
        return False
    return len(set(value)) == len(value)


def _instant(value: object) -> datetime | bool | None:
    """The instant, None for none, False for what is no instant with a time zone."""
    if value is None or value in ("", "None"):
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return False
    return value if isinstance(value, datetime) and value.tzinfo is not None else False


def _is_time(value: object) -> bool:
    return isinstance(value, str) and (not value or _TIME.fullmatch(value) is not None)


def _is_length(value: object) -> bool:
    return value is None or _is_late(value) or (isinstance(value, timedelta) and value > timedelta())


def _is_amount(value: object) -> bool:
    return _is_late(value) or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
