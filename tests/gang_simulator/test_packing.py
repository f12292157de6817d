from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gang_scheduler.sharing import NodeShare, ShareAsk, choose
from gang_simulator.packing import Cluster, NotPackable, arrivals, pack
from gang_simulator.packing_input import read_nodes, read_pods
from gang_simulator.packing_policies import POLICIES, BestFit, GradientDescent

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "openb"
WHOLE, HALF, NO_GPU = ShareAsk(1, 1000, 4000), ShareAsk(1, 500, 2000), ShareAsk(0, 0, 1000)
NODES = {f"node-{number}": NodeShare((1000,) * 4, 32000, 1024) for number in range(5)}

asks = st.builds(
    lambda width, cpu, memory: ShareAsk(width[0], width[1], cpu, memory),
    st.sampled_from([(0, 0), (1, 250), (1, 333), (1, 810), (1, 1000), (2, 1000)]),
    st.integers(0, 4),
    st.integers(0, 4),
)
clusters = st.lists(
    st.builds(NodeShare, st.integers(0, 4).map(lambda count: (1000,) * count), st.integers(0, 20), st.integers(0, 20)),
    max_size=5,
).map(lambda states: {f"node-{number}": state for number, state in enumerate(states)})


@pytest.mark.parametrize("policy", POLICIES)
@given(nodes=clusters, kinds=st.lists(asks, min_size=1, max_size=4), draw=st.data())
def test_a_filling_cluster_places_as_choose_does(
    policy: str, nodes: dict[str, NodeShare], kinds: list[ShareAsk], draw: st.DataObject
) -> None:
    preference = POLICIES[policy](Counter(kinds), list(nodes.values()))
    cluster = Cluster(nodes, preference)
    for ask in draw.draw(st.lists(st.sampled_from(kinds), max_size=30)):
        expected = choose(list(cluster.states.items()), ask, preference)
        assert cluster.place(ask) == expected


@pytest.mark.parametrize(
    ("free", "history", "expected"),
    [
        pytest.param((1000,), [ShareAsk(1, 810)], 0, id="all of a device that holds one more"),
        pytest.param((1000, 600), [ShareAsk(1, 810)], 600, id="a device with less room than asked for"),
        pytest.param((1000, 600), [ShareAsk(2, 1000)], 1600, id="all, if the ask does not fit"),
        pytest.param((1000, 1000, 1000), [ShareAsk(2, 1000)], 0, id="an odd device counts as usable"),
        pytest.param((1000, 1000), [ShareAsk(1, 1000, 6000)], 0, id="CPUs for one of two devices"),
        pytest.param((1000, 1000), [ShareAsk(1, 1000, 9000)], 2000, id="CPUs for none"),
        pytest.param((1000, 200), [ShareAsk(1, 500), ShareAsk(1, 100), ShareAsk(0, 0)], 200, id="the sum over asks"),
    ],
)
def test_published_fragments_are_what_one_more_ask_could_not_use(
    free: tuple[int, ...], history: list[ShareAsk], expected: int
) -> None:
    times = {ask: history.count(ask) for ask in history}
    assert GradientDescent(times).waste(NodeShare(free, 8000, 0)) == expected


def test_best_fit_weighs_cpus_and_gpus_by_the_largest_node() -> None:
    nodes = {
        "large": NodeShare((1000,) * 4, 40000, 0),
        "few-cpus": NodeShare((1000,) * 3, 10000, 0),
        "few-gpus": NodeShare((1000,), 20000, 0),
    }
    # Left after one whole device with 10 CPUs: 0.75 + 0.75, 0.5 + 0, 0 + 0.25.
    assert choose(nodes.items(), ShareAsk(1, 1000, 10000), BestFit(list(nodes.values()))) == ("few-gpus", (0,))


def test_arrivals_ask_for_the_demand_and_no_pod_more() -> None:
    drawn = arrivals([WHOLE, HALF, NO_GPU], 26_000, seed=3)
    asked = [pod.total_milli for pod in drawn]
    assert sum(asked[:-1]) < 26_000 <= sum(asked)
    assert arrivals([WHOLE, HALF, NO_GPU], 26_000, seed=3) == drawn != arrivals([WHOLE, HALF, NO_GPU], 26_000, seed=4)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_whole_cluster_is_used_when_everything_fits_everywhere(policy: str) -> None:
    packed = pack([WHOLE, HALF, NO_GPU], NODES, demand=1.3, seed=0, policy=policy)
    assert packed.gpu_allocation == 100.0
    assert (packed.gpus, packed.nodes) == (20, 5)
    assert sum(placed for placed, _ in packed.by_width.values()) == packed.pods_placed
    assert sum(failed for _, failed in packed.by_width.values()) == packed.pods_failed > 0
    assert list(packed.by_width) == ["0", "share", "1"]


def test_nodes_without_a_gpu_are_left_out() -> None:
    nodes = NODES | {"cpus": NodeShare((), 1_000_000, 1_000_000)}
    assert pack([WHOLE], nodes, demand=1, seed=0, policy="fill").nodes == len(NODES)


@pytest.mark.parametrize(
    ("pods", "nodes", "demand", "policy", "said"),
    [
        ([NO_GPU], NODES, 1.3, "fill", "none of the 1 pods asks for a GPU"),
        ([WHOLE], {"cpus": NodeShare((), 1, 1)}, 1.3, "fill", "none of the 1 nodes has a GPU"),
        ([WHOLE], NODES, 0.0, "fill", "demand 0.0"),
        ([WHOLE], NODES, float("nan"), "fill", "demand nan"),
        ([WHOLE], NODES, float("inf"), "fill", "demand inf"),
        ([WHOLE], NODES, 1.3, "worst", "allowed: fill, fgd, best-fit, first-fit"),
    ],
    ids=["no GPU asked for", "no GPU there", "no demand", "no number", "no end", "no such policy"],
)
def test_what_cannot_be_packed_is_refused(
    pods: list[ShareAsk], nodes: dict[str, NodeShare], demand: float, policy: str, said: str
) -> None:
    with pytest.raises(NotPackable, match=said):
        pack(pods, nodes, demand=demand, seed=0, policy=policy)


def test_files_are_read_as_described(tmp_path: Path) -> None:
    pods, nodes = tmp_path / "pods.csv.gz", tmp_path / "nodes.csv"
    with gzip.open(pods, "wt") as file:
        file.write("job_id,gpus,gpu_milli,cpu_milli,memory_mib,gpu_type\na,1,460,6000,512,\nb,2,1000,0,0,T4|P100\n")
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,1024,2,T4\nn-2,32000,512,0,\n")
    assert read_pods(pods) == (ShareAsk(1, 460, 6000, 512), ShareAsk(2, 1000, models=frozenset({"T4", "P100"})))
    assert read_nodes(nodes) == {"n-1": NodeShare((1000, 1000), 64000, 1024, "T4"), "n-2": NodeShare((), 32000, 512)}


@pytest.mark.skipif(not TRACES.exists(), reason=f"the traces are not at {TRACES}")
def test_the_published_allocation_is_reached_on_the_production_trace() -> None:
    pods, nodes = read_pods(TRACES / "default.csv.gz"), read_nodes(TRACES / "nodes_all.csv.gz")
    packed = {policy: pack(pods, nodes, demand=1.3, seed=0, policy=policy) for policy in ("fill", "best-fit")}
    assert (packed["fill"].nodes, packed["fill"].gpus) == (1213, 6212)
    assert packed["fill"].gpu_allocation >= 95.0
    assert packed["best-fit"].gpu_allocation < packed["fill"].gpu_allocation - 1.5
