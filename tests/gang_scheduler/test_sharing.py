from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gang_scheduler.fragmentation import TypicalAsks, fragmentation
from gang_scheduler.sharing import NodeShare, ShareAsk, choose, fits, taken

WHOLE = ShareAsk(1, 1000)
PAIR = ShareAsk(2, 1000)
HALF = ShareAsk(1, 500)
LARGE_SHARE = ShareAsk(1, 810)
NO_GPU = ShareAsk(0, 0, 4000)

shares = st.integers(1, 999).map(lambda milli: (1, milli))
widths = st.one_of(st.just((0, 0)), shares, st.sampled_from([(1, 1000), (2, 1000), (4, 1000)]))
asks = st.builds(
    lambda width, cpu, memory, models: ShareAsk(width[0], width[1], cpu, memory, models),
    widths,
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from([frozenset(), frozenset({"a"}), frozenset({"a", "b"})]),
)
states = st.builds(
    NodeShare,
    st.lists(st.one_of(st.sampled_from([0, 500, 1000]), st.integers(0, 1000)), max_size=5).map(tuple),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(["a", "b", "c"]),
)
clusters = st.dictionaries(st.sampled_from([f"node-{number}" for number in range(9)]), states, max_size=6)
histories = st.lists(asks, max_size=8).map(TypicalAsks.of)


@pytest.mark.parametrize(
    ("state", "history", "expected"),
    [
        pytest.param(((1000,), 0), [WHOLE], 0, id="a whole device for one that asks for it"),
        pytest.param(((999,), 0), [WHOLE], 999, id="too little is all waste"),
        pytest.param(((1000, 600), 0), [WHOLE], 600, id="only what is left of shared devices"),
        pytest.param(((1000, 500), 0), [HALF], 0, id="shares fill devices to the end"),
        pytest.param(((1000,), 0), [LARGE_SHARE], 190, id="the remainder of a device that fits no second one"),
        pytest.param(((1000, 1000, 1000), 0), [PAIR], 1000, id="an odd device has no partner"),
        pytest.param(((1000, 1000), 6000), [ShareAsk(1, 1000, 4000)], 1000, id="CPUs for one of two devices"),
        pytest.param(((1000, 1000), 3000), [ShareAsk(1, 1000, 4000)], 2000, id="CPUs for none"),
        pytest.param(((1000, 1000), 0), [ShareAsk(1, 1000, 0, 1)], 2000, id="no memory"),
        pytest.param(((1000,), 0), [WHOLE, WHOLE, WHOLE, LARGE_SHARE], 190 / 4, id="the mean over the history"),
        pytest.param(((1000,), 0), [WHOLE, NO_GPU], 0, id="asks without a GPU are left out"),
        pytest.param(
            ((1000,), 0), [ShareAsk(1, 1000, models=frozenset({"other"}))], 1000, id="another model is wanted"
        ),
        pytest.param(((1000,), 0), [], 0, id="without a history nothing is known to be waste"),
        pytest.param(((), 64000), [WHOLE], 0, id="no devices"),
    ],
)
def test_fragmentation_is_what_typical_asks_leave_unused(
    state: tuple[tuple[int, ...], int], history: list[ShareAsk], expected: float
) -> None:
    devices, cpu_milli = state
    assert fragmentation(NodeShare(devices, cpu_milli, 0, "model"), TypicalAsks.of(history)) == expected


def test_a_share_joins_another_when_whole_devices_are_wanted() -> None:
    nodes = {"a": NodeShare((1000, 1000), 0, 0), "b": NodeShare((1000, 400, 700), 0, 0)}
    assert choose(nodes.items(), ShareAsk(1, 300), TypicalAsks.of([WHOLE])) == ("b", (1,))


def test_a_share_takes_the_device_whose_rest_is_of_use() -> None:
    # 900 hold two typical asks, 400 none.
    nodes = {"a": NodeShare((1000, 500), 0, 0)}
    assert choose(nodes.items(), ShareAsk(1, 100), TypicalAsks.of([ShareAsk(1, 450)])) == ("a", (0,))


def test_the_node_without_cpus_to_spare_is_left_to_gpus_when_another_holds_the_ask() -> None:
    nodes = {"balanced": NodeShare((1000, 1000), 8000, 0), "cpu-rich": NodeShare((1000,), 64000, 0)}
    assert choose(nodes.items(), NO_GPU, TypicalAsks.of([ShareAsk(1, 1000, 4000)])) == ("cpu-rich", ())


def test_the_fuller_node_is_chosen_when_nothing_is_typical() -> None:
    nodes = {"empty": NodeShare((1000, 1000), 0, 0), "used": NodeShare((1000, 0), 0, 0)}
    assert choose(nodes.items(), WHOLE, TypicalAsks.of([])) == ("used", (0,))


def test_nothing_is_chosen_when_the_ask_fits_nowhere() -> None:
    nodes = {"a": NodeShare((600, 600), 0, 0), "b": NodeShare((1000,), 0, 0)}
    assert choose(nodes.items(), PAIR, TypicalAsks.of([WHOLE])) is None


@pytest.mark.parametrize(
    ("gpus", "gpu_milli"), [(1, 1001), (2, 500), (0, 1), (1, 0), (-1, 1000)], ids=lambda amount: str(amount)
)
def test_an_ask_is_refused_when_it_is_neither_a_share_nor_whole(gpus: int, gpu_milli: int) -> None:
    with pytest.raises(ValueError, match="allowed"):
        ShareAsk(gpus, gpu_milli)


@given(clusters, st.lists(asks, max_size=25), histories)
def test_no_device_is_ever_taken_beyond_its_whole(
    nodes: dict[str, NodeShare], arriving: list[ShareAsk], typical: TypicalAsks
) -> None:
    before, held = dict(nodes), Counter[tuple[str, int]]()
    for ask in arriving:
        chosen = choose(nodes.items(), ask, typical)
        if chosen is None:
            assert not any(fits(state, ask) for state in nodes.values())
            continue
        name, devices = chosen
        assert len(set(devices)) == len(devices) == ask.gpus
        if ask.gpu_milli == 1000:
            assert all(nodes[name].gpu_free_milli[device] == 1000 for device in devices)
        assert not ask.gpus or not ask.models or nodes[name].model in ask.models
        held.update({(name, device): ask.gpu_milli for device in devices})
        nodes = nodes | {name: taken(nodes[name], ask, devices)}
        left = nodes[name]
        assert min(left.cpu_free_milli, left.memory_free_mib, *left.gpu_free_milli, 0) == 0
    for name, state in nodes.items():
        for device, free in enumerate(state.gpu_free_milli):
            assert free + held[name, device] == before[name].gpu_free_milli[device] <= 1000


@given(clusters, asks, histories, st.randoms(use_true_random=False))
def test_the_choice_is_the_same_when_nodes_come_in_another_order(
    nodes: dict[str, NodeShare], ask: ShareAsk, typical: TypicalAsks, random: Random
) -> None:
    shuffled = list(nodes.items())
    random.shuffle(shuffled)
    assert choose(shuffled, ask, typical) == choose(nodes.items(), ask, typical) == choose(nodes.items(), ask, typical)


def waste_by_counting(state: NodeShare, ask: ShareAsk) -> int:
    """What is left once asks like this were added one by one, each to the first devices that hold it."""
    while fits(state, ask):
        able = [device for device, free in enumerate(state.gpu_free_milli) if free >= ask.gpu_milli]
        state = taken(state, ask, able[: ask.gpus])
    return sum(state.gpu_free_milli)


@given(states, st.lists(asks.filter(lambda ask: ask.gpus > 0), min_size=1, max_size=6))
def test_fragmentation_is_the_mean_waste_counted_one_by_one(state: NodeShare, history: list[ShareAsk]) -> None:
    expected = sum(waste_by_counting(state, ask) for ask in history)
    assert fragmentation(state, TypicalAsks.of(history)) == expected / len(history)


@given(clusters, asks, st.lists(asks, max_size=6))
def test_the_choice_raises_fragmentation_least_of_all_that_fit(
    nodes: dict[str, NodeShare], ask: ShareAsk, history: list[ShareAsk]
) -> None:
    gpu_asks = [past for past in history if past.gpus]

    def rank(name: str, devices: tuple[int, ...]) -> tuple[int, int, int, str, tuple[int, ...]]:
        before, after = nodes[name], taken(nodes[name], ask, devices)
        growth = sum(waste_by_counting(after, past) - waste_by_counting(before, past) for past in gpu_asks)
        level = before.gpu_free_milli[devices[0]] if devices else 0
        return growth, sum(after.gpu_free_milli), level, name, devices

    options = [
        rank(name, devices)
        for name, state in nodes.items()
        if fits(state, ask)
        for devices in combinations(range(len(state.gpu_free_milli)), ask.gpus)
        if all(state.gpu_free_milli[device] >= ask.gpu_milli for device in devices)
    ]
    assert choose(nodes.items(), ask, TypicalAsks.of(history)) == (min(options)[3:] if options else None)
