"""What the settings do to a snapshot, and whom they refuse."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from gang_scheduler.gang import NodeWishes, Topology, WorkerGroup
from gang_scheduler.gang_queue import QueueView, Quota
from gang_scheduler.node import NodeState, NodeView
from gang_scheduler.plan import plan
from gang_scheduler.policy import DEFAULT_POLICY, Order, Policy
from gang_scheduler.pool import PoolView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import Snapshot
from pool_settings import Settings, read_text
from pool_settings.tables import GpuTable, NodesTable, PolicyTable, PoolTable, QueueTable, QuotaTable
from tests.builders import NOON, a_gang, a_node, a_view

FILE = """
[gpu.H100]
memory_gib = 80
compute = 2.0
max_shares = 4
mig.halves = { "3g.40gb" = 2 }

[pool.gpu]
levels = ["rack"]

[[pool.gpu.nodes]]
name = "n[1-4]"
cpus = 32
memory_gib = 256
scratch_gib = 100
gpus = 8
gpu_model = "H100"
mig = { halves = 2 }
location = ["rack-[1-2]"]
labels = { disk = "nvme" }
state = "cordoned"

[queue.research]
weight = 3.0
dag_ids = ["vision_*", "dag"]

[queue.default.quota.gpu]
gpus = { nominal = 8, borrow = 4, lend = 2 }

[priority]
high = 10

[policy]
order = "fifo"
aged_after = "never"

[access]
teams.vision = ["vision_*"]

[[access.rules]]
team = "vision"
queues = ["research"]
pools = ["gpu"]
max_priority = "high"
"""


@pytest.fixture(scope="module")
def settings() -> Settings:
    return read_text(FILE)


# --- a field of the scheduler that no key reaches would be one that nobody can set


@pytest.mark.parametrize(
    ("core", "tables", "elsewhere"),
    [
        (Policy, [PolicyTable], set()),
        (PoolView, [PoolTable], {"name"}),
        (QueueView, [QueueTable], {"name", "quotas"}),
        (Quota, [QuotaTable], {"pool", "resource"}),
        (
            NodeView,
            [NodesTable],
            {"pool", "node", "capacity", "is_cordoned", "gpu_memory_gib"},  # name, amounts, state, [gpu]
        ),
        (Resources, [NodesTable], {"gpu_share"}),  # shares are of whole GPUs
    ],
    ids=lambda case: case.__name__ if isinstance(case, type) else "",
)
def test_every_field_of_the_scheduler_is_reached(core: Any, tables: list[Any], elsewhere: set[str]) -> None:
    keys = {key for table in tables for key in table.model_fields}
    assert {field.name for field in fields(core)} - elsewhere <= keys
    assert {"memory_gib", "compute"} <= set(GpuTable.model_fields)


def test_no_file_is_the_defaults() -> None:
    snapshot = Snapshot(NOON, 1, (a_node(),))
    assert Settings().apply(snapshot) == snapshot
    assert Settings().policy == DEFAULT_POLICY == read_text("").policy
    assert Settings().refusal(a_gang()) is None


def test_file_becomes_what_the_scheduler_takes(settings: Settings) -> None:
    found = settings.snapshot(NOON)
    node = found.nodes[2]
    assert (node.node, node.location, node.labels) == ("n3", ("rack-2",), {"disk": "nvme"})
    assert node.capacity == Resources(32, 256, 6, 100, mig=(("3g.40gb", 4),))
    assert (node.gpu_model, node.gpu_memory_gib, node.compute) == ("H100", 80, 2.0)
    assert (node.is_usable, node.state) == (False, NodeState.CORDONED)
    assert found.pools == (PoolView("gpu", levels=("rack",)),)
    assert found.queues == (
        QueueView("research", weight=3.0, dag_ids=("vision_*", "dag")),
        QueueView("default", quotas=(Quota("gpu", "gpus", 8, 4, 2),)),
    )
    assert found.policy == replace(DEFAULT_POLICY, order=Order.FIFO, aged_after=None)


def test_counted_domains_are_numbered_on_over_the_tables_of_a_pool() -> None:
    table = "[[pool.p.nodes]]\nname = '{}[0-5]'\ncpus = 1\nmemory_gib = 1\nper_domain = {{ spine = 4, leaf = 2 }}\n"
    found = read_text("[pool.p]\nlevels = ['spine', 'leaf']\n" + table.format("a") + table.format("b"))
    places = [node.location for node in found.nodes]
    assert places[:6] == [(f"spine-{n // 4}", f"leaf-{n // 2}") for n in range(6)]
    assert places[6:] == [(f"spine-{2 + n // 4}", f"leaf-{3 + n // 2}") for n in range(6)]


# --- live snapshots


def live(**changes: Any) -> Snapshot:
    measured = NodeView("gpu", "n1", Resources(30, 250, 8), labels={"os": "linux"})
    given: dict[str, Any] = {"nodes": (measured, a_node())} | changes
    return Snapshot(NOON, 7, **given)


def test_live_nodes_get_the_files_facts_and_keep_what_the_ledger_measures(settings: Settings) -> None:
    found = settings.apply(live())
    node, other = found.nodes
    assert node.capacity == Resources(30, 250, 6, 100, mig=(("3g.40gb", 4),)), "6 of the 8 measured GPUs are whole"
    assert (node.location, node.gpu_model, node.compute) == (("rack-1",), "H100", 2.0)
    assert node.labels == {"os": "linux", "disk": "nvme"}
    assert node.is_usable, "the state of a live node is the ledger's"
    assert other == a_node(), "what the file does not know stays as it is"
    assert found.version == 7


def test_node_that_changed_since_the_last_look_is_seen_as_it_is_now(settings: Settings) -> None:
    first = settings.apply(live()).nodes[0]
    assert settings.apply(live()).nodes[0] is first
    smaller = NodeView("gpu", "n1", Resources(30, 250, 4), is_cordoned=True, cordon_reason="fans")
    changed = settings.apply(live(nodes=(smaller,))).nodes[0]
    assert (changed.capacity.gpus, changed.is_usable, changed.cordon_reason) == (2, False, "fans")


def test_nodes_that_nobody_serves_are_not_added(settings: Settings) -> None:
    assert {node.node for node in settings.apply(live()).nodes} == {"n1", "localhost"}
    assert len(settings.snapshot().nodes) == 4


def test_usage_of_queues_is_the_ledgers(settings: Settings) -> None:
    found = settings.apply(live(queues=(QueueView("research", usage=5.0), QueueView("old", usage=1.0))))
    assert [(queue.name, queue.usage, queue.weight) for queue in found.queues] == [
        ("research", 5.0, 3.0),
        ("default", 0.0, 1.0),
        ("old", 1.0, 1.0),
    ]


def test_plan_goes_by_the_settings_when_they_are_applied() -> None:
    closed = read_text("[queue.default]\nwindows = [{ from_hour = 20, until_hour = 6 }]")
    snapshot = Snapshot(NOON, 1, (a_node(),), (a_view(a_gang()),))
    assert type(plan(snapshot)[0]).__name__ == "Admit"
    assert type(plan(closed.apply(snapshot))[0]).__name__ == "Wait"


# --- who may ask for what


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param(
            {"gang_queue": "reserch"}, "known gang queues: 'default', 'research'. Name one", id="unknown queue"
        ),
        pytest.param(
            {"gang_id": "etl/r/t", "gang_queue": "research"},
            "DAG 'etl' asks gang queue 'research', which takes DAGs 'vision_*', 'dag' only (pools.toml:23 [queue.",
            id="not its queue",
        ),
        pytest.param(
            {"gang_id": "vision_a/r/t", "gang_pool": "gpu"},
            "DAG 'vision_a' asks gang queue 'default'; it may ask: 'research' (pools.toml:40 [[access.rules]] 1)",
            id="queue by rule",
        ),
        pytest.param(
            {"gang_id": "vision_a/r/t", "gang_pool": "gpu", "gang_queue": "research", "fallback_pools": ("local",)},
            "asks gang pool 'local'; it may ask: 'gpu'",
            id="fallback pool by rule",
        ),
        pytest.param(
            {"gang_id": "vision_a/r/t", "gang_pool": "gpu", "gang_queue": "research", "gang_priority": 11},
            "asks gang priority 11; it may ask at most 10 (pools.toml:40",
            id="priority by rule",
        ),
        pytest.param(
            {"gang_pool": "gpu", "topology": Topology("spine", is_required=True)},
            "requires one domain of level 'spine'; its gang pools have 'gpu': pool, rack, node",
            id="unknown level",
        ),
        pytest.param(
            {"gang_pool": "gpu", "worker_groups": (WorkerGroup("w", 1, Resources(gpu_share=0.1)),)},
            "asks 0.1 of a GPU; a H100 may be shared by at most 4, so by 0.25 each",
            id="too small a share",
        ),
    ],
)
def test_request_is_refused_with_who_what_and_where(settings: Settings, fields: dict[str, Any], said: str) -> None:
    refusal = settings.refusal(a_gang(**fields))
    assert refusal is not None
    assert said in refusal


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"gang_pool": "gpu", "topology": Topology("leaf")}, id="a preferred level"),
        pytest.param({"topology": Topology("leaf", is_required=True)}, id="one host is under one domain"),
        pytest.param({"gang_queue": "research"}, id="its queue"),
        pytest.param(
            {"gang_id": "vision_a/r/t", "gang_pool": "gpu", "gang_queue": "research", "gang_priority": 10}, id="by rule"
        ),
        pytest.param(
            {
                "gang_pool": "gpu",
                "worker_groups": (WorkerGroup("w", 1, Resources(gpu_share=0.1)),),
                "wishes": NodeWishes(gpu_models=("L4",)),
            },
            id="a share of another model",
        ),
        pytest.param(
            {"gang_pool": "gpu", "worker_groups": (WorkerGroup("w", 1, Resources(gpu_share=0.25)),)}, id="share"
        ),
    ],
)
def test_request_is_not_refused_when_it_is_allowed(settings: Settings, fields: dict[str, Any]) -> None:
    assert settings.refusal(a_gang(**fields)) is None


def test_dag_that_no_rule_names_is_refused_when_others_are() -> None:
    closed = read_text("[access]\nothers = 'refuse'\n[[access.rules]]\ndags = ['nightly_*']\n")
    assert closed.refusal(a_gang("nightly_x/r/t")) is None
    refusal = closed.refusal(a_gang("adhoc/r/t"))
    assert refusal is not None
    assert "DAG 'adhoc' is named by no access rule, and others are refused (pools.toml:2 [access]: others" in refusal


def test_first_rule_that_names_a_dag_holds() -> None:
    rules = "[[access.rules]]\ndags = ['a_1']\n[[access.rules]]\ndags = ['a_*']\nmax_priority = 0\n"
    found = read_text(rules)
    assert found.refusal(a_gang("a_1/r/t", gang_priority=5)) is None
    assert found.refusal(a_gang("a_2/r/t", gang_priority=5)) is not None


def test_priority_class_has_its_number_and_an_unknown_one_names_those_known(settings: Settings) -> None:
    assert settings.priority("high") == settings.priority(10) == 10
    with pytest.raises(LookupError, match=r"priority classes: 'high' \(10\) \(pools.toml \[priority\]\)"):
        settings.priority("urgent")


def test_durations_of_the_policy_are_durations() -> None:
    assert read_text("[policy]\nmin_run = '1h30m'").policy.min_run == timedelta(minutes=90)
