"""The tables of pools.toml, as they are written; `settings` makes the scheduler's types of them.

The words are those of the scheduler's types. A test holds that every field of those can be reached from here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gang_scheduler.node import NodeState
from gang_scheduler.policy import DEFAULT_POLICY, Blocking, Order
from gang_scheduler.pool import Authority
from pool_settings.durations import Duration, DurationOrNever, PositiveDuration

# Far above any cluster; what is larger is a slip, and sums of it would no longer be exact.
Amount = Annotated[float, Field(ge=0, le=1e12)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_. -]*$"
PROFILE = r"^[1-7]g\.[0-9]{1,4}gb(\+[a-z.]+)?$"
FORMS = {
    NAME: "a name of letters, digits, '_', '.', '-' and spaces, with a letter, digit or '_' first",
    PROFILE: 'a MIG profile such as "3g.40gb"',
}
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
Pattern = Annotated[str, Field(min_length=1, max_length=250)]
Domain = Annotated[str, Field(min_length=1, max_length=200)]
Profile = Annotated[str, Field(pattern=PROFILE)]


class Table(BaseModel):
    """A table: unknown keys are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class WindowTable(Table):
    """A part of each day in UTC; past midnight where the end is smaller."""

    from_hour: Annotated[float, Field(ge=0, le=24)]
    until_hour: Annotated[float, Field(ge=0, le=24)]


class TariffTable(WindowTable):
    """What energy costs in a part of the day."""

    price_per_kwh: Amount


class GpuTable(Table):
    """A GPU model; `mig` names the ways one device may be cut, each with its instances by profile."""

    memory_gib: Positive
    compute: Positive = 1.0
    max_shares: Annotated[int, Field(ge=1, le=1000)] = 100
    mig: dict[Name, dict[Profile, Annotated[int, Field(ge=1, le=7)]]] = {}


class NodesTable(Table):
    """Nodes that are alike."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    cpus: Positive
    memory_gib: Positive
    scratch_gib: Amount = 0.0
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    gpu_model: str = ""
    mig: dict[str, Annotated[int, Field(ge=1, le=1024)]] = {}
    compute: Positive | None = None
    location: list[Domain] | None = None
    per_domain: dict[str, Annotated[int, Field(ge=1, le=1_000_000)]] | None = None
    labels: dict[str, str] = {}
    is_spot: bool = False
    region: str = ""
    site: str = ""
    provider: str = ""
    fabric: str = ""
    link_gbps: Amount = 0.0
    price_per_hour: Amount = 0.0
    watts: Amount = 0.0
    state: Annotated[NodeState, Field(strict=False)] = NodeState.READY
    cordon_reason: str = ""


class PoolTable(Table):
    """A pool and its nodes."""

    kind: str = ""
    levels: list[Name] = []
    authority: Annotated[Authority, Field(strict=False)] = Authority.PHALANX
    storage_gib: Amount = 0.0
    storage_gbps: Amount = 0.0
    power_cap_w: Amount = 0.0
    price_per_kwh: Amount = 0.0
    tariffs: list[TariffTable] = []
    spot_mtbf: PositiveDuration | None = None
    cpu_reserve_per_gpu: Amount = 0.0
    nodes: list[NodesTable] = []


class QuotaTable(Table):
    """How much of one resource a queue owns, may borrow and lends."""

    nominal: Amount
    borrow: Amount | None = None
    lend: Amount | None = None


def _as_table(said: object) -> object:
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return {"nominal": said} if is_number else said


def _priority_or_class(said: object) -> object:
    if isinstance(said, bool) or not isinstance(said, int | str):
        raise ValueError('must be a whole number, or the name of a priority class in quotes, such as "high"')
    return said


PriorityOrClass = Annotated[int | str, BeforeValidator(_priority_or_class)]
QuotaOrNominal = Annotated[QuotaTable, BeforeValidator(_as_table)]


class PoolQuotaTable(Table):
    """A queue's quotas in one pool: a number is the nominal quota."""

    gpus: QuotaOrNominal | None = None
    cpus: QuotaOrNominal | None = None
    memory_gib: QuotaOrNominal | None = None


class QueueTable(Table):
    """A gang queue."""

    cohort: str = ""
    quota: dict[str, PoolQuotaTable] = {}
    weight: Positive = 1.0
    usage: Amount = 0.0
    windows: list[WindowTable] = []
    harvests_only: bool = False
    max_gangs: Count = 0
    max_gpus: Amount = 0.0
    dag_ids: list[Pattern] = []


class PolicyTable(Table):
    """The rules of admission; the defaults are the scheduler's."""

    order: Annotated[Order, Field(strict=False)] = DEFAULT_POLICY.order
    stretch: Annotated[float, Field(gt=0, le=1e6)] = DEFAULT_POLICY.stretch
    blocking: Annotated[Blocking, Field(strict=False)] = DEFAULT_POLICY.blocking
    preempts_by_order: bool = DEFAULT_POLICY.preempts_by_order
    preempts_by_priority: bool = DEFAULT_POLICY.preempts_by_priority
    reclaims_quota: bool = DEFAULT_POLICY.reclaims_quota
    fair_share: bool = DEFAULT_POLICY.fair_share
    min_run: Duration = DEFAULT_POLICY.min_run
    hysteresis: Annotated[float, Field(ge=1, le=1e6)] = DEFAULT_POLICY.hysteresis
    aged_after: DurationOrNever = DEFAULT_POLICY.aged_after
    las_first: PositiveDuration = DEFAULT_POLICY.las_first
    las_factor: Annotated[float, Field(gt=1, le=1e6)] = DEFAULT_POLICY.las_factor
    las_gap: Annotated[int, Field(ge=1, le=1000)] = DEFAULT_POLICY.las_gap
    assumed_duration: PositiveDuration = DEFAULT_POLICY.assumed_duration
    usage_half_life: PositiveDuration = DEFAULT_POLICY.usage_half_life
    reservation_depth: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_POLICY.reservation_depth


class RuleTable(Table):
    """What DAGs of some ids, or of a team, may ask for; what is not given is not restricted."""

    dags: list[Pattern] = []
    team: str = ""
    queues: list[str] | None = None
    pools: list[str] | None = None
    max_priority: PriorityOrClass | None = None


class AccessTable(Table):
    """Who may ask for what; the first rule that names a DAG holds for it."""

    others: Literal["allow", "refuse"] = "allow"
    teams: dict[Name, list[Pattern]] = {}
    rules: list[RuleTable] = []


class PoolsFile(Table):
    """The whole file."""

    gpu: dict[Name, GpuTable] = {}
    pool: dict[Name, PoolTable] = {}
    queue: dict[Name, QueueTable] = {}
    priority: dict[Name, Priority] = {}
    policy: PolicyTable = PolicyTable()
    access: AccessTable = AccessTable()
