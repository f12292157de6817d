from __future__ import annotations

import pytest

from gang_scheduler.admission import why_never
from gang_scheduler.gang import GangRequest, WorkerGroup
from gang_scheduler.resources import Resources
from tests.builders import a_gang, a_node

NODES = (a_node(cpus=2), a_node("gpu-1", pool="gpu", capacity=Resources(8, 64, 4), is_cordoned=True))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        pytest.param(
            a_gang(workers=48),
            "gang 'dag/run/train': worker group 'trainer' asks 48 CPUs (48 workers of 1 CPU), the whole gang 48 CPUs; "
            "gang pool 'local' holds 2 CPUs when empty (localhost: 2 CPUs). Ask for fewer workers, or register "
            "more slots (PHALANX_LOCAL_SLOTS)",
            id="too many workers",
        ),
        pytest.param(a_gang(workers=1, cpus=3), "Ask for smaller workers", id="too large a worker"),
        pytest.param(
            a_gang(gang_pool="gup"),
            "asks gang pool 'gup'; known gang pools: 'gpu', 'local'. Name one",
            id="unknown pool",
        ),
        pytest.param(a_gang(workers=0), "every worker group needs at least 1 worker", id="no workers"),
        pytest.param(a_gang(worker_groups=()), "asks no worker group", id="no groups"),
        pytest.param(
            a_gang(worker_groups=(WorkerGroup("a", 1), WorkerGroup("a", 1))),
            "a name may be used once",
            id="name used twice",
        ),
        pytest.param(a_gang(cpus=0), "asks 0 CPUs, 0 GiB, 0 GPUs a worker", id="asks nothing"),
        pytest.param(a_gang(cpus=-1), "asks -1 CPUs", id="asks less than nothing"),
        pytest.param(
            a_gang(worker_groups=(WorkerGroup("t", 1, Resources(gpu_share=0.0004)),)),
            "a share is of one device, at least a thousandth",
            id="a share too small to be given",
        ),
        pytest.param(
            a_gang(worker_groups=(WorkerGroup("t", 1, Resources(gpus=1, gpu_share=0.5)),)),
            "asks 1 GPUs and 0.5 of one",
            id="a share beside whole devices",
        ),
    ],
)
def test_request_is_refused_for_good_when_it_can_never_fit(request_: GangRequest, said: str) -> None:
    reason = why_never(request_, NODES)
    assert reason is not None
    assert said in reason


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(a_gang(workers=2), id="fills the pool"),
        pytest.param(
            a_gang(gang_pool="gpu", worker_groups=(WorkerGroup("t", 4, Resources(1, 1, 1)),)), id="a cordon is no limit"
        ),
    ],
)
def test_request_is_taken_when_it_fits_into_the_empty_pool(request_: GangRequest) -> None:
    assert why_never(request_, NODES) is None
