"""Upkeep of the gang ledger: a tick when nobody waits, and the release of gangs whose task is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context, TaskInstanceState

from gang_ledgers.ledger import GangRecord
from operators.gangs import FROM_AIRFLOW, using_gangs

OVER = frozenset(
    {
        TaskInstanceState.SUCCESS,
        TaskInstanceState.FAILED,
        TaskInstanceState.SKIPPED,
        TaskInstanceState.UPSTREAM_FAILED,
        TaskInstanceState.REMOVED,
    }
)
GONE = "gone"


class GangUpkeepOperator(BaseOperator):
    """The backstop behind the triggers: releases every live gang whose task instance is over or gone.

    A deferral that times out, a deleted DAG run or a triggerer that dies at the wrong moment release nothing.
    """

    def execute(self, context: Context) -> dict[str, int]:
        """Tick once, reconcile, forget what ended long ago; return how many gangs are live and were released."""
        with using_gangs() as gangs:
            gangs.tick()
            pruned = gangs.prune()
            live = [
                gang for gang in gangs.list_gangs(live_only=True) if gang.request.labels.items() >= FROM_AIRFLOW.items()
            ]
            released = 0
            for gang, state in orphans(live, lambda **wanted: context["ti"].get_task_states(**wanted)):
                # As its owner: a try that has taken the gang over since then is not affected.
                if gangs.release(gang.gang_id, gang.owner, who="gang_upkeep", why=f"its task instance is {state}"):
                    released += 1
                    self.log.warning("%s", f"gang {gang.gang_id} is released: its task instance is {state}.")
        self.log.info(
            "%s", f"{len(live)} gangs are live, {released} of them released; {pruned} old rows are forgotten."
        )
        return {"live": len(live), "released": released}


def orphans(live: Sequence[GangRecord], ask_states: Any) -> list[tuple[GangRecord, str]]:
    """The live gangs whose task instance is over or gone, each with that state.

    `ask_states` is `RuntimeTaskInstance.get_task_states`; it is asked once per DAG.
    """
    by_dag: dict[str, list[tuple[GangRecord, str, str]]] = defaultdict(list)
    for gang in live:
        dag_id, run_id, task_id, *mapped = gang.gang_id.split("/")
        by_dag[dag_id].append((gang, run_id, "_".join([task_id, *mapped])))
    found = []
    for dag_id, gangs in by_dag.items():
        states: Mapping[str, Mapping[str, Any]] = ask_states(
            dag_id=dag_id, run_ids=sorted({run_id for _, run_id, _ in gangs})
        )
        for gang, run_id, name in gangs:
            state = states.get(run_id, {}).get(name, GONE)
            if state == GONE or state in OVER:
                found.append((gang, str(getattr(state, "value", state))))
    return found
