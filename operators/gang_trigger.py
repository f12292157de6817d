"""What waits for a gang while its task is deferred."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from gang_scheduler.gang_state import ENDED
from operators.gang_narrator import Narrator
from operators.gang_poller import Watch, shared_poller
from operators.gangs import open_gangs, release_gang


class GangTrigger(BaseTrigger):
    """Fires when the newest submission of a gang is over; until then it tells the task's log what happens.

    The event only wakes the task: what became of the gang, the task reads from the ledger.

    Args:
        gang_id: the gang.
        owner: who asked for it (the task instance's id); only this owner may release it.
        after: the number of the last history row that the task has told itself.
    """

    def __init__(self, gang_id: str, owner: str, after: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow leaves it without annotations
        self.gang_id = gang_id
        self.owner = owner
        self.after = after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, from which a triggerer makes it again."""
        return (
            "operators.gang_trigger.GangTrigger",
            {"gang_id": self.gang_id, "owner": self.owner, "after": self.after},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Tell what happens, and fire once the gang is over (or the ledger doesn't know it)."""
        narrator = Narrator(self.after)
        with Watch(shared_poller(open_gangs), self.gang_id) as watch:
            async for update in watch:
                if update.notice:
                    self.log.warning("%s", update.notice)
                    continue
                record = update.record
                lines = narrator.lines(update.printed, update.rows, record, time.monotonic())
                for level, sentence in [*lines, *narrator.placed(update.place)]:
                    self.log.log(level, "%s", sentence)
                if record is None or record.state in ENDED:
                    yield TriggerEvent({"gang_id": self.gang_id, "state": record.state.value if record else "unknown"})
                    return

    async def on_kill(self) -> None:
        """A person cleared or marked the task: stop the gang with a checkpoint, unless a newer try owns it by now."""
        released = await asyncio.to_thread(
            release_gang, self.gang_id, self.owner, "its task was cleared or marked in Airflow"
        )
        self.log.info(
            "%s", "The gang is asked to stop with a checkpoint." if released else "The gang is no longer this try's."
        )
