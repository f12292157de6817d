"""GangOperator: asks for a gang, gives its slot back, and is woken when the gang is over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from gang_ledgers.ledger import Claim, GangRecord, RequestRefused
from gang_scheduler.gang import Budgets, ClockLimits, GangRequest, NodeWishes, Topology, WorkerGroup
from gang_scheduler.gang_state import ENDED, GangState
from operators.gang_errors import GangFailed, GangInterrupted, GangRetryPolicy
from operators.gang_terms import GangTerms, elastic, min_workers_wrong, priority_asked
from operators.gang_trigger import GangTrigger
from operators.gangs import FROM_AIRFLOW, release_gang, using_gangs

RETRIES = 5
RETRY_DELAY = timedelta(seconds=10)
OURS = {
    "retries": f"it is Phalanx's own and pays for lost Airflow processes only (default {RETRIES}). "
    "Set user_retries for retries of the program; faults of the machines are paid from infrastructure_budget",
    "execution_timeout": "it would count neither queueing nor recovery right. Set run_limit for the time that the gang "
    "may run (queue_limit, start_limit and recovery_limit bound the other clocks)",
}
TEMPLATED = (
    "workers", "min_workers", "gang_pool", "fallback_pools", "gang_queue", "gang_priority", "topology", "deadline",
    "finish_by",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GangWork:
    """What the gang runs: the RunSpec, its digest (equal digests are equal work), and the program torchrun starts."""

    run_spec_json: str
    digest: str
    command: tuple[str, ...]
    asked_with: str = ""


class GangOperator(BaseOperator):
    """Runs a program as a gang of workers that start together or not at all, and resume from their checkpoints.

    The task is deferred while the gang queues, runs and recovers; its log shows each of these. It ends with the gang's
    verdict. A cleared or marked task releases its gang with a checkpoint.

    Args:
        command: the program and its arguments as torchrun takes them after its own options; "{run_spec}" stands for the
            path of the RunSpec file.
        run_spec: all that the program needs to know; JSON. Equal RunSpecs are equal work, which is not done twice.
        workers: number of workers of one CPU slot each; or
        worker_groups: the groups of workers and what each worker needs.
        min_workers: with `workers`: start with at least so many, and grow when there is room.
        gang_pool: which pool of nodes the gang runs on.
        fallback_pools: where it runs if not there, in order of preference.
        gang_queue: in which gang queue it waits.
        gang_priority: higher goes first within the pool; a number, or a priority class of the settings by its name.
        topology: put all workers under one domain of this level if possible; `Topology(level, is_required=True)`: or
            not at all.
        wishes: regions, labels, GPU models, and gangs to be near to or apart from.
        deadline: when the gang should be done; or
        finish_by: the same as a time of day in UTC ("06:00"), the first one after the DAG run began.
        expected_duration: how long it will run on the fastest hardware; None: learned from past runs.
        is_preemptible: whether it may be asked to make room for others, with a checkpoint.
        checkpoint_interval: how often the program saves; what it has done since is what making room would cost.
        storage_gib: of the pool's shared storage, while it runs.
        storage_gbps: of the bandwidth of that storage.
        user_retries: how many ends by the program's own fault are tried again.
        infrastructure_budget: how many ends by a fault of the machines are recovered.
        queue_limit: how long the gang may wait for capacity; None: as long as it takes.
        start_limit: how long an attempt may take from admission to its first step.
        run_limit: how long the gang may run, attempts added up.
        recovery_limit: how long it may spend between attempts and out of contact; frees the unproven, too.
        checkpoint_grace: how long a gang that is asked to stop may take for its checkpoint.

    Raises:
        AirflowException: at DAG parse, if `retries` or `execution_timeout` is set, or a value can't be meant.
    """

    template_fields: Collection[str] = ("command", "run_spec", *TEMPLATED)
    template_fields_renderers: ClassVar[dict[str, str]] = {"run_spec": "json"}
    ui_color = "#d9e8d5"

    def __init__(
        self,
        *,
        command: Sequence[str] = (),
        run_spec: Mapping[str, Any] | None = None,
        workers: int | str | None = None,
        worker_groups: Sequence[WorkerGroup] = (),
        min_workers: int | str | None = None,
        gang_pool: str = "local",
        fallback_pools: Sequence[str] | str = (),
        gang_queue: str = "default",
        gang_priority: int | str = 0,
        topology: Topology | str | None = None,
        wishes: NodeWishes | None = None,
        deadline: datetime | str | None = None,
        finish_by: str | None = None,
        expected_duration: timedelta | None = None,
        is_preemptible: bool = True,
        checkpoint_interval: timedelta | None = None,
        storage_gib: float = 0.0,
        storage_gbps: float = 0.0,
        user_retries: int = 0,
        infrastructure_budget: int = 5,
        queue_limit: timedelta | None = None,
        start_limit: timedelta | None = timedelta(minutes=10),
        run_limit: timedelta | None = None,
        recovery_limit: timedelta | None = None,
        checkpoint_grace: timedelta = timedelta(seconds=30),
        **kwargs: Any,
    ) -> None:
        if getattr(self, "_BaseOperator__from_mapped", False):  # a mapped task is made with all of Airflow's defaults
            for name in (*OURS, "retry_policy"):
                kwargs.pop(name, None)
        for name, instead in OURS.items():
            if name in kwargs:
                raise AirflowException(
                    f"{type(self).__name__} {kwargs.get('task_id')!r}: {name}={kwargs[name]!r} was set, but {instead}."
                )
        if (workers is None) == (not worker_groups):
            raise AirflowException(
                f"{type(self).__name__} {kwargs.get('task_id')!r}: workers={workers!r} and "
                f"worker_groups={list(worker_groups)!r} were given; give exactly one of them."
            )
        if wrong := min_workers_wrong(min_workers, workers, worker_groups):
            raise AirflowException(f"{type(self).__name__} {kwargs.get('task_id')!r}: {wrong}.")
        kwargs.setdefault("retry_delay", RETRY_DELAY)
        super().__init__(retries=RETRIES, execution_timeout=None, retry_policy=GangRetryPolicy(), **kwargs)
        self.command = command
        self.run_spec = run_spec
        self.workers = workers
        self.worker_groups = worker_groups
        self.gang_pool = gang_pool
        self.min_workers = min_workers
        self.fallback_pools = fallback_pools
        self.gang_queue = gang_queue
        self.gang_priority = gang_priority
        self.topology = topology
        self.wishes = wishes
        self.deadline = deadline
        self.finish_by = finish_by
        self.expected_duration = expected_duration
        self.is_preemptible = is_preemptible
        self.checkpoint_interval = checkpoint_interval
        self.storage_gib = storage_gib
        self.storage_gbps = storage_gbps
        self.user_retries = user_retries
        self.infrastructure_budget = infrastructure_budget
        self.queue_limit = queue_limit
        self.start_limit = start_limit
        self.run_limit = run_limit
        self.recovery_limit = recovery_limit
        self.checkpoint_grace = checkpoint_grace
        self._asked_for: tuple[str, str] | None = None  # gang id and owner, for on_kill
        self._terms().check(f"{type(self).__name__} {self.task_id!r}")

    # --- what a subclass says -----------------------------------------------------------------------------------------

    def work(self, context: Context) -> GangWork:  # noqa: ARG002 - a subclass needs it
        """What the gang shall run; made again at every try, so it must come out equal for the same task and run."""
        run_spec_json = json.dumps(self.run_spec or {}, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(json.dumps([run_spec_json, *self.command]).encode()).hexdigest()
        return GangWork(run_spec_json, digest, tuple(self.command))

    def outcome(self, record: GangRecord, context: Context) -> Any:  # noqa: ARG002
        """What the task returns for a gang that succeeded: ids and URIs only."""
        return {"gang_id": record.gang_id, "submission": record.submission, "run_dir": record.run_dir}

    # --- the task -----------------------------------------------------------------------------------------------------

    def execute(self, context: Context) -> Any:
        """Ask for the gang, and wait for its end."""
        return self._ask_and_wait(context)

    def resume(self, context: Context, event: Mapping[str, Any] | None = None) -> Any:  # noqa: ARG002 - see below
        """Woken: return what became of the gang, or go on waiting.

        The event is only a wake-up: it may be an old one that a cleared task starts with. The ledger knows.
        """
        gang_id, owner = gang_id_of(context), owner_of(context)
        with using_gangs() as gangs:
            record = gangs.state(gang_id)
        if record is None or record.owner != owner or record.state not in ENDED:
            return self._ask_and_wait(context)
        return self._settle(record, context)

    def on_kill(self) -> None:
        """The task was killed while it ran: release the gang, if it is still this try's."""
        if self._asked_for is not None:
            release_gang(*self._asked_for, why="its task was ended in Airflow")

    def _ask_and_wait(self, context: Context) -> Any:
        try:
            request, claim = self._request(context)
        except RequestRefused as refusal:
            raise AirflowFailException(str(refusal)) from None
        self._asked_for = (request.gang_id, claim.owner)
        try:
            with using_gangs() as gangs:
                rows = gangs.history(request.gang_id)
                submitted = gangs.submit(request, claim)
                record = gangs.state(request.gang_id)
        except RequestRefused as refusal:
            raise AirflowFailException(str(refusal)) from None
        self.log.info("%s", submitted.sentence)
        self.log.info("gang %s, run folder %s", request.gang_id, submitted.run_dir)
        if record is None or record.state not in ENDED:
            after = rows[-1].number if rows else 0
            self.defer(trigger=GangTrigger(request.gang_id, claim.owner, after), method_name="resume")
        return self._settle(record, context)

    def _settle(self, record: GangRecord, context: Context) -> Any:
        sentence = record.verdict.sentence if record.verdict else f"the gang {record.state.value}"
        files = f"; logs and checkpoints in {record.run_dir}" if record.attempt else ""  # a result taken over has none
        where = f"(gang {record.gang_id}, submission {record.submission}{files})"
        if record.state is GangState.SUCCEEDED:
            self.log.info("%s %s", sentence, where)
            return self.outcome(record, context)
        if record.state is GangState.INTERRUPTED:
            raise GangInterrupted(f"{sentence} {where}. Clear the task to resume it from its last checkpoint.")
        raise GangFailed(f"{sentence} {where}. Clear the task to try again.")

    def _request(self, context: Context) -> tuple[GangRequest, Claim]:
        work = self.work(context)
        request = replace(
            self.asked(context, gang_id_of(context)),
            command=work.command,
            run_spec_json=work.run_spec_json,
            run_spec_digest=work.digest,
        )
        claim = Claim(owner=owner_of(context), generation=context["ti"].max_tries, asked_with=work.asked_with)
        return request, claim

    def asked(self, context: Context, gang_id: str) -> GangRequest:
        """What is asked for, without the work: enough to say whether it could ever start.

        Raises:
            RequestRefused: the priority class is unknown.
        """
        return GangRequest(
            gang_id=gang_id,
            dag_id=context["ti"].dag_id,
            gang_pool=self.gang_pool,
            gang_queue=self.gang_queue,
            gang_priority=self._priority(),
            worker_groups=self.groups(),
            command=(),
            run_spec_json="{}",
            run_spec_digest="",
            limits=ClockLimits(self.queue_limit, self.start_limit, self.run_limit, self.recovery_limit),
            budgets=Budgets(infrastructure=self.infrastructure_budget, user=self.user_retries),
            grace=self.checkpoint_grace,
            labels=FROM_AIRFLOW,
            is_preemptible=self.is_preemptible,
            **self._terms().request_fields(context),
        )

    def groups(self) -> tuple[WorkerGroup, ...]:
        """The worker groups that are asked for."""
        if self.worker_groups:
            return tuple(self.worker_groups)
        try:
            workers = int(str(self.workers))
        except ValueError:
            workers = 0
        if workers < 1:
            raise AirflowFailException(f"workers={self.workers!r} was asked; give a whole number of at least 1.")
        return elastic([WorkerGroup("worker", workers)], self.min_workers)

    def _terms(self) -> GangTerms:
        return GangTerms(**{term.name: getattr(self, term.name) for term in fields(GangTerms)})

    def _priority(self) -> int:
        asked = priority_asked(self.gang_priority)
        if isinstance(asked, int):
            return asked
        with using_gangs() as gangs:
            return gangs.priority(asked)


def gang_id_of(context: Context) -> str:
    """The gang id of a task instance: asking twice for the same one is asking once."""
    ti = context["ti"]
    mapped = f"/{ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}{mapped}"


def owner_of(context: Context) -> str:
    """Who asks: the task instance's id, which is another one for each try."""
    return str(context["ti"].id)
