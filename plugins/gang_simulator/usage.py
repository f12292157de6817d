"""What each gang queue has used so far, decayed: the history that fair share looks at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log

from gang_scheduler.gang_queue import QueueView
from gang_scheduler.policy import Policy
from gang_simulator.sim_gang import SimGang


class UsageHistory:
    """In dominant shares x seconds, halved with each half-life; a queue's share is its part of all GPUs."""

    def __init__(self, queues: Sequence[QueueView], gpus: int, policy: Policy, now_s: float) -> None:
        """The queues come with what they used before."""
        self._queues = {queue.name: queue for queue in queues}
        self._gpus = gpus
        self._half_life_s = policy.usage_half_life.total_seconds()
        self._matters = policy.fair_share and len(queues) > 1 and self._half_life_s > 0
        self._held = dict.fromkeys(self._queues, 0)
        self._at_s = now_s

    def until(self, now_s: float) -> Sequence[QueueView]:
        """The queues with their usage by now."""
        if self._matters and now_s > self._at_s:
            kept = 0.5 ** ((now_s - self._at_s) / self._half_life_s)
            for name, queue in self._queues.items():
                steady = self._held[name] / self._gpus * self._half_life_s / log(2)
                self._queues[name] = replace(queue, usage=queue.usage * kept + steady * (1 - kept))
            self._at_s = now_s
        return tuple(self._queues.values())

    def change(self, gangs: Iterable[SimGang], sign: int, now_s: float) -> None:
        """Gangs begin (1) or cease (-1) to hold their GPUs."""
        self.until(now_s)
        for gang in gangs:
            if gang.request.gang_queue in self._held:
                self._held[gang.request.gang_queue] += sign * gang.job.gpus
