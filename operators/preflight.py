"""Asks, before a run works for hours, whether the gangs that it will ask for could ever start."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Protocol

from airflow.sdk import Context, XComArg
from airflow.sdk.exceptions import AirflowFailException

from gang_ledgers.ledger import LedgerError, RequestRefused
from gang_scheduler.gang import GangRequest
from operators.gang import TEMPLATED, GangOperator
from operators.gangs import using_gangs


class Log(Protocol):
    """A task's log, or the standard library's."""

    def info(self, message: str, /, *args: Any) -> Any: ...
    def warning(self, message: str, /, *args: Any) -> Any: ...


def refuse_impossible_gangs(context: Context, log: Log) -> None:
    """Dry-run each gang of the run's DAG whose size is known by now, and tell what would become of it.

    A gang whose terms come out of another task, or that is mapped, is judged when it is asked for. If the ledger can't
    be asked now, nothing is judged: this only tells early what would be told later.

    Raises:
        AirflowFailException: one would be refused for good.
    """
    asked = list(_requests(context))
    if not asked:
        return
    from gang_controller.wiring import NotWired

    try:
        with using_gangs() as gangs:
            told = [(request, gangs.dry_run(request)) for request in asked]
    except (NotWired, LedgerError, ValueError) as error:
        log.warning("whether the gangs of this run can start is not known yet: %s", error)
        return
    for request, answer in told:
        task_id = request.gang_id.rsplit("/", 1)[-1]
        if answer.never:
            raise AirflowFailException(f"task '{task_id}' of this run would be refused: {answer.never}")
        log.info("task '%s' will ask for %s: %s", task_id, request.total, answer.sentence)


def _requests(context: Context) -> Iterator[GangRequest]:
    for task in getattr(context.get("dag"), "tasks", ()):
        is_late = any(isinstance(getattr(task, name, None), XComArg) for name in TEMPLATED)
        if isinstance(task, GangOperator) and not is_late:
            yield _request(task, context)


def _request(task: GangOperator, context: Context) -> GangRequest:
    rendered = copy(task)
    for name in TEMPLATED:
        setattr(rendered, name, task.render_template(getattr(task, name), context))
    ti = context["ti"]
    try:
        return rendered.asked(context, f"{ti.dag_id}/{ti.run_id}/{task.task_id}")
    except RequestRefused as refusal:
        raise AirflowFailException(f"task '{task.task_id}' of this run would be refused: {refusal}") from None
