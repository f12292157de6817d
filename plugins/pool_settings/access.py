"""Who may ask for what: queues, pools and priorities, by DAG id and team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gang_scheduler.gang import GangRequest
from gang_scheduler.gang_queue import QueueView


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What the DAGs that the patterns name may ask for; None is anything. `where` names its place in the file."""

    dags: tuple[str, ...]
    where: str
    queues: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None
    max_priority: int | None = None

    def names(self, dag_id: str) -> bool:
        """True if it holds for the DAG."""
        return _names(self.dags, dag_id)


@dataclass(frozen=True, slots=True)
class Access:
    """The first rule that names a DAG holds for it; of `refuses_others`, the place where that is said."""

    rules: tuple[AccessRule, ...] = ()
    refuses_others: str = ""

    def rule_for(self, dag_id: str) -> AccessRule | None:
        """The rule that holds for the DAG; None if none names it."""
        return next((rule for rule in self.rules if rule.names(dag_id)), None)

    def refusal(self, request: GangRequest) -> str | None:
        """Why its DAG may not ask for this; None if it may."""
        rule = self.rule_for(request.dag_id)
        if rule is None:
            if not self.refuses_others:
                return None
            return (
                f"{_who(request)} is named by no access rule, and others are refused ({self.refuses_others}). "
                "Add a rule that names it"
            )
        if rule.queues is not None and request.gang_queue not in rule.queues:
            return _not_allowed(request, "gang queue", request.gang_queue, rule.queues, rule.where)
        for pool in request.pools:
            if rule.pools is not None and pool not in rule.pools:
                return _not_allowed(request, "gang pool", pool, rule.pools, rule.where)
        if rule.max_priority is not None and request.gang_priority > rule.max_priority:
            return (
                f"{_who(request)} asks gang priority {request.gang_priority}; it may ask at most {rule.max_priority} "
                f"({rule.where}). Lower gang_priority, or change the rule"
            )
        return None


def queue_refusal(request: GangRequest, queues: Mapping[str, QueueView], where: Mapping[str, str]) -> str | None:
    """Why the queue does not take the gang; None if it does, or if no queues are configured.

    Args:
        request: the gang.
        queues: the configured ones by name.
        where: the place of each in the settings file.
    """
    if not queues:
        return None
    queue = queues.get(request.gang_queue)
    if queue is None:
        known = ", ".join(f"'{name}'" for name in sorted(queues))
        return (
            f"gang '{request.gang_id}': asks gang queue '{request.gang_queue}'; known gang queues: {known}. "
            f"Name one of them as gang_queue, or add [queue.{request.gang_queue}] to the settings file"
        )
    if queue.dag_ids and not _names(queue.dag_ids, request.dag_id):
        allowed = ", ".join(f"'{pattern}'" for pattern in queue.dag_ids)
        return (
            f"{_who(request)} asks gang queue '{queue.name}', which takes DAGs {allowed} only ({where[queue.name]} "
            "dag_ids). Name another gang_queue, or add the DAG there"
        )
    return None


def _names(patterns: Sequence[str], dag_id: str) -> bool:
    return any(fnmatchcase(dag_id, pattern) for pattern in patterns)


def _who(request: GangRequest) -> str:
    return f"gang '{request.gang_id}': DAG '{request.dag_id}'"


def _not_allowed(request: GangRequest, what: str, asked: str, allowed: Sequence[str], where: str) -> str:
    names = ", ".join(f"'{name}'" for name in allowed) or "none"
    return (
        f"{_who(request)} asks {what} '{asked}'; it may ask: {names} ({where}). "
        f"Name one of these as {what.replace(' ', '_')}, or change the rule"
    )
