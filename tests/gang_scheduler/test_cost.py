"""Among pools that meet the deadline the cheapest: price, energy by tariff, spot risk; power caps, shared storage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gang_scheduler.actions import WaitReason
from gang_scheduler.admission import why_never
from gang_scheduler.node import NodeView
from gang_scheduler.pool import DailyWindow, PoolView, Tariff
from tests.builders import NOON, a_gpu_gang, a_gpu_node, a_pool, a_running, a_snapshot, a_view, gpu_nodes
from tests.gang_scheduler.planned import planned

HOUR = timedelta(hours=1)


def of(pool: str, **fields: Any) -> NodeView:
    return a_gpu_node(f"{pool}-1", pool=pool, **fields)


def chosen(
    nodes: list[NodeView], pools: list[PoolView], *, hours: float = 2, deadline_h: float | None = 10, **fields: Any
) -> str:
    gang = a_gpu_gang(
        "a/r/t",
        minutes=hours * 60,
        gang_pool="a",
        fallback_pools=("b",),
        deadline=None if deadline_h is None else NOON + deadline_h * HOUR,
        **fields,
    )
    return planned(a_snapshot(a_view(gang), nodes=nodes, pools=pools)).pool("a/r/t")


PLAIN = [a_pool("a"), a_pool("b")]
DAY = Tariff(DailyWindow(8, 20), 1.0)
DEAR = {"price_per_hour": 9.0}


@pytest.mark.parametrize(
    ("nodes", "pools", "fields", "expected"),
    [
        pytest.param([of("a", **DEAR), of("b", price_per_hour=3)], PLAIN, {}, "b", id="the cheaper one"),
        pytest.param([of("a", price_per_hour=3), of("b", price_per_hour=3)], PLAIN, {}, "a", id="a tie: as asked"),
        pytest.param(
            [of("a", **DEAR), of("b", price_per_hour=3)], PLAIN, {"deadline_h": None}, "a", id="no deadline: as asked"
        ),
        pytest.param(
            [of("a", **DEAR), of("b", price_per_hour=3, compute=0.1)],
            PLAIN,
            {},
            "a",
            id="the cheaper one would be late",
        ),
        pytest.param(
            [of("a", **DEAR), of("b", price_per_hour=3, compute=0.25)],
            PLAIN,
            {},
            "a",
            id="the cheaper hour is dearer for the whole run",
        ),
        pytest.param(
            [of("a", compute=0.1), of("b", compute=0.15, **DEAR)],
            PLAIN,
            {"deadline_h": 1},
            "b",
            id="both late: the sooner",
        ),
        pytest.param(
            [of("a", watts=1000), of("b", watts=1000)],
            [a_pool("a", price_per_kwh=0.3), a_pool("b", price_per_kwh=0.2)],
            {},
            "b",
            id="energy",
        ),
        pytest.param(
            [of("a", watts=1000), of("b", watts=1000)],
            [a_pool("a", price_per_kwh=0.1, tariffs=(DAY,)), a_pool("b", price_per_kwh=0.2)],
            {},
            "b",
            id="energy is dear by day",
        ),
        pytest.param(
            [of("a", watts=1000), of("b", watts=1000)],
            [
                a_pool("a", price_per_kwh=0.1, tariffs=(Tariff(DailyWindow(20, 8), 1.0),)),
                a_pool("b", price_per_kwh=0.2),
            ],
            {},
            "a",
            id="a tariff of the night",
        ),
        pytest.param(
            [of("a", watts=1000), of("b", watts=1000)],
            [a_pool("a", price_per_kwh=0.1, tariffs=(DAY,)), a_pool("b", price_per_kwh=0.95)],
            {"hours": 24, "deadline_h": 99},
            "a",
            id="a long run pays both tariffs",
        ),
        pytest.param(
            [of("a", price_per_hour=3, is_spot=True), of("b", price_per_hour=5)],
            [a_pool("a", spot_mtbf=100 * HOUR), a_pool("b")],
            {"checkpoint_interval": HOUR / 6},
            "a",
            id="spot is cheaper where it is seldom reclaimed",
        ),
        pytest.param(
            [of("a", price_per_hour=3, is_spot=True), of("b", price_per_hour=5)],
            [a_pool("a", spot_mtbf=HOUR), a_pool("b")],
            {"checkpoint_interval": None},
            "b",
            id="spot is dearer where all work is lost each hour",
        ),
        pytest.param(
            [of("a", price_per_hour=3, is_spot=True), of("b", price_per_hour=5)],
            [a_pool("a", spot_mtbf=HOUR), a_pool("b")],
            {"checkpoint_interval": HOUR / 60},
            "a",
            id="spot is cheaper with checkpoints each minute",
        ),
    ],
)
def test_cheapest_pool_in_time_is_taken_when_there_is_a_deadline(
    nodes: list[NodeView], pools: list[PoolView], fields: dict[str, Any], expected: str
) -> None:
    assert chosen(nodes, pools, **fields) == expected


def test_dearer_pool_is_taken_when_the_cheapest_is_full() -> None:
    gang = a_gpu_gang("a/r/t", minutes=60, gang_pool="a", fallback_pools=("b",), deadline=NOON + 9 * HOUR)
    held = a_running(a_gpu_gang("held/r/t", gang_pool="b"), "b-1")
    nodes = [of("a", **DEAR), of("b", price_per_hour=1)]
    assert planned(a_snapshot(held, a_view(gang), nodes=nodes)).pool("a/r/t") == "a"


# --- the power cap


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        pytest.param(0, 3, id="no cap"),
        pytest.param(3000, 3, id="enough"),
        pytest.param(2999, 2, id="a watt too little"),
        pytest.param(500, 0, id="too little for one"),
    ],
)
def test_nodes_in_use_stay_under_the_power_cap_when_many_gangs_wait(cap: float, expected: int) -> None:
    gangs = [a_view(a_gpu_gang(f"g{number}/r/t")) for number in range(5)]
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(3, watts=1000.0), pools=(a_pool(power_cap_w=cap),)))
    assert len(plan.admitted) == expected
    if expected < 3:
        assert set(plan.waits.values()) == {WaitReason.POWER}
        assert "[pool.gpu] power_cap_w" in plan.sentence("g4/r/t")


def test_gang_starts_at_the_power_cap_when_it_shares_a_node_that_is_in_use() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=4), "n1")
    snapshot = a_snapshot(
        held, a_view(a_gpu_gang("a/r/t", gpus=4)), nodes=gpu_nodes(2, watts=1000.0), pools=(a_pool(power_cap_w=1000),)
    )
    assert planned(snapshot).nodes("a/r/t") == {"n1": 1}


def test_gang_that_waits_for_power_is_not_passed_by_one_that_draws_more() -> None:
    held = a_running(a_gpu_gang("held/r/t", gpus=4), "n1")
    wide = a_view(a_gpu_gang("wide/r/t", workers=3, gpus=8), waited=2 * HOUR)
    nodes = gpu_nodes(5, watts=1000.0)
    draws_more, shares_a_node = a_view(a_gpu_gang("more/r/t", gpus=8)), a_view(a_gpu_gang("shares/r/t", gpus=4))
    pools = (a_pool(power_cap_w=3000),)
    plan = planned(a_snapshot(held, wide, draws_more, shares_a_node, nodes=nodes, pools=pools))
    assert set(plan.admitted) == {"shares/r/t"}
    assert plan.waits == {"wide/r/t": WaitReason.POWER, "more/r/t": WaitReason.POWER}
    assert "for which gang 'wide/r/t' waits before it" in plan.sentence("more/r/t")


def test_gang_that_would_pass_the_power_cap_alone_keeps_nobody_waiting() -> None:
    wide, small = a_view(a_gpu_gang("wide/r/t", workers=4, gpus=8), waited=2 * HOUR), a_view(a_gpu_gang("small/r/t"))
    plan = planned(a_snapshot(wide, small, nodes=gpu_nodes(5, watts=1000.0), pools=(a_pool(power_cap_w=3000),)))
    assert set(plan.admitted) == {"small/r/t"}


# --- shared storage


@pytest.mark.parametrize(
    ("pool", "fields", "expected"),
    [
        pytest.param({"storage_gib": 100}, {"storage_gib": 40}, 2, id="room for two"),
        pytest.param({"storage_gib": 120}, {"storage_gib": 40}, 3, id="room for three"),
        pytest.param({"storage_gbps": 100}, {"storage_gbps": 60}, 1, id="bandwidth for one"),
        pytest.param({}, {"storage_gib": 9999}, 3, id="the pool does not count it"),
    ],
)
def test_shared_storage_is_never_given_twice_when_gangs_ask_for_it(
    pool: dict[str, Any], fields: dict[str, Any], expected: int
) -> None:
    gangs = [a_view(a_gpu_gang(f"g{number}/r/t", **fields)) for number in range(3)]
    plan = planned(a_snapshot(*gangs, nodes=gpu_nodes(3), pools=(a_pool(**pool),)))
    assert len(plan.admitted) == expected
    if expected < 3:
        assert WaitReason.STORAGE in plan.waits.values()


def test_held_storage_counts_when_a_gang_comes() -> None:
    held = a_running(a_gpu_gang("held/r/t", storage_gib=60), "n1")
    snapshot = a_snapshot(
        held, a_view(a_gpu_gang("a/r/t", storage_gib=60)), nodes=gpu_nodes(2), pools=(a_pool(storage_gib=100),)
    )
    plan = planned(snapshot)
    assert plan.waits == {"a/r/t": WaitReason.STORAGE}
    assert "asks 60 GiB of the shared storage of pool 'gpu', which has 40 of 100" in plan.sentence("a/r/t")


def test_gang_is_refused_for_good_when_the_pool_never_had_that_much_storage() -> None:
    never = why_never(a_gpu_gang("a/r/t", storage_gib=101), gpu_nodes(1), [a_pool(storage_gib=100)])
    assert never is not None
    assert "asks 101 GiB of the shared storage" in never
