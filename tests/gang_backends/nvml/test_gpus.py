"""Which GPUs of a host are found."""

from __future__ import annotations

import os

import pytest

from gang_backends.nvml import find_gpus
from tests.gang_backends.nvml.recorded_nvml import (
    NVMLError,
    NVMLError_DriverNotLoaded,
    NVMLError_LibraryNotFound,
    RecordedNvml,
)


def test_gpus_are_found_with_the_cpus_that_they_are_near_to() -> None:
    nvml = RecordedNvml("dgx-h100")
    gpus = find_gpus(nvml)
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert {(gpu.name, gpu.memory_gib) for gpu in gpus} == {("NVIDIA H100 80GB HBM3", 80.0)}
    assert len({gpu.uuid for gpu in gpus}) == 8
    assert gpus[0].near_cpus == gpus[3].near_cpus == {*range(56), *range(112, 168)}
    assert gpus[4].near_cpus == {*range(56, 112), *range(168, 224)}
    assert nvml.open_count == 0


def test_all_cpus_are_near_when_affinity_is_not_told() -> None:
    (gpu,) = find_gpus(RecordedNvml("one-l4"))
    assert gpu.near_cpus == set(range(os.cpu_count() or 1))


def test_lost_gpu_is_left_out_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    nvml = RecordedNvml("two-a100-one-lost")
    assert [gpu.index for gpu in find_gpus(nvml)] == [0]
    assert "GPU 1 can't be read" in caplog.text
    nvml.lose(0)
    assert find_gpus(nvml) == ()


@pytest.mark.parametrize("error", [NVMLError_LibraryNotFound(), NVMLError_DriverNotLoaded(), NVMLError("mismatch")])
def test_there_are_none_when_nvml_does_not_start(error: NVMLError, caplog: pytest.LogCaptureFixture) -> None:
    nvml = RecordedNvml("dgx-h100")
    nvml.fails_with = error
    assert find_gpus(nvml) == ()
    assert ("mismatch" in caplog.text) == (type(error) is NVMLError)
