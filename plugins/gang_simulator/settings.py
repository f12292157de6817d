"""What a replay is told beside jobs and cluster: the policy by its name, restart costs, checkpoints, the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gang_scheduler.policy import DEFAULT_POLICY, Blocking, Order, Policy

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


class PolicyName(StrEnum):
    """Rules of admission that have a name."""

    DEFAULT = "default"
    FIFO = "fifo"
    SJF = "sjf"
    SRSF = "srsf"
    LAS = "las"


class Durations(StrEnum):
    """Whether the scheduler is told how long jobs run."""

    KNOWN = "known"
    UNKNOWN = "unknown"


# As in textbooks: one order for all and nothing that bends it, so that other simulators can be compared.
_TEXTBOOK = Policy(
    preempts_by_order=False, preempts_by_priority=False, reclaims_quota=False, fair_share=False, aged_after=None
)


def policy_of(name: PolicyName, blocking: Blocking | None, default: Policy | None = None) -> Policy:
    """The rules behind a name; `default` is what that name stands for where a pools file says so.

    `fifo` and `sjf` never stop what runs. `srsf` and `las` are the default rules with their order, and stop what runs
    for who comes first in it; nobody has to be kept room for then. Nobody ages, as where these orders were published:
    on made-up loads (benchmarks/synthetic_jobs.py) of 1.1 and 1.5 times a cluster, ageing after 30 days cost nothing to
    4 % of the mean where most gangs are small, and 19 to 42 % where most are wide, whose longest waits it cut by 20 to
    40 %. `--aged-after` asks for it; where gangs really run it is 7 days.
    """
    preemptive = replace(DEFAULT_POLICY, preempts_by_order=True, blocking=Blocking.NONE, aged_after=None)
    rules = {
        PolicyName.DEFAULT: default or DEFAULT_POLICY,
        PolicyName.FIFO: replace(_TEXTBOOK, order=Order.FIFO),
        PolicyName.SJF: replace(_TEXTBOOK, order=Order.SJF),
        PolicyName.SRSF: replace(preemptive, order=Order.SRSF),
        PolicyName.LAS: replace(preemptive, order=Order.LAS),
    }[name]
    return rules if blocking is None else replace(rules, blocking=blocking)


@dataclass(frozen=True, slots=True)
class RestartCost:
    """Seconds that a gang holds its GPUs without progress when it starts again, by its width."""

    one_gpu_s: float = 7.0
    up_to_8_gpus_s: float = 30.0
    more_gpus_s: float = 60.0

    def of(self, gpus: int) -> float:
        """Of a gang of so many GPUs."""
        if gpus <= 1:
            return self.one_gpu_s
        return self.up_to_8_gpus_s if gpus <= 8 else self.more_gpus_s

    def __str__(self) -> str:
        costs = (self.one_gpu_s, self.up_to_8_gpus_s, self.more_gpus_s)
        return ",".join(f"{cost:g}" for cost in costs) if any(costs) else "none"


NO_RESTART_COST = RestartCost(0.0, 0.0, 0.0)


def parse_restart_cost(said: str) -> RestartCost:
    """`none`, or three numbers of seconds for 1 / at most 8 / more GPUs, such as `7,30,60`.

    Raises:
        ValueError: it is neither.
    """
    if said.strip() == "none":
        return NO_RESTART_COST
    try:
        one, few, many = (float(part) for part in said.split(","))
        if min(one, few, many) < 0 or max(one, few, many) == float("inf"):
            raise ValueError(said)
    except ValueError:
        raise ValueError(
            f"restart cost is '{said}'; 'none' or three numbers of seconds for 1, at most 8 and more GPUs, such as "
            "'7,30,60', are allowed (--restart-cost)"
        ) from None
    return RestartCost(one, few, many)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """How a replay goes; `starts_at` is the instant of the trace's second 0 (windows and tariffs look at it)."""

    policy: Policy = DEFAULT_POLICY
    policy_name: str = PolicyName.DEFAULT
    durations_are_known: bool = True
    restart_cost: RestartCost = RestartCost()
    checkpoint_every: timedelta | None = timedelta(minutes=30)
    starts_at: datetime = ZERO
    seed: int = 0
