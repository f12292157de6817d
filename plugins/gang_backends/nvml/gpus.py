"""Finds the GPUs of this host, and the CPUs that each is near to."""

from __future__ import annotations

import importlib
import logging
import os
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

WORD_BITS = 64  # NVML gives the CPUs as an array of unsigned longs (nvmlDeviceGetCpuAffinity)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `index` is NVML's; `near_cpus` are those from which its memory is reached the fastest."""

    index: int
    uuid: str
    name: str
    memory_gib: float
    near_cpus: frozenset[int]


def find_gpus(nvml: Any = None) -> tuple[Gpu, ...]:
    """This host's GPUs in NVML's order; none without the package `nvidia-ml-py`, a driver or a device.

    Args:
        nvml: What stands for the module `pynvml`.
    """
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return ()
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return ()  # a host without GPUs
    except nvml.NVMLError as error:
        log.warning("NVML does not start, so no GPU of this host is used: %s", error)
        return ()
    try:
        found = (_read(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        return tuple(gpu for gpu in found if gpu is not None)
    finally:
        nvml.nvmlShutdown()


def _read(nvml: Any, index: int) -> Gpu | None:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        memory_gib = round(nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30, 1)
    except nvml.NVMLError as error:  # it fell off the bus, say
        log.warning("GPU %d can't be read, so it is not used: %s", index, error)
        return None
    return Gpu(index, uuid, name, memory_gib, _near_cpus(nvml, handle))


def _near_cpus(nvml: Any, handle: Any) -> frozenset[int]:
    cpus = os.cpu_count() or 1
    try:
        words = nvml.nvmlDeviceGetCpuAffinity(handle, -(-cpus // WORD_BITS))
    except nvml.NVMLError:  # not told on every platform
        return frozenset(range(cpus))
    return frozenset(cpu for cpu in range(len(words) * WORD_BITS) if words[cpu // WORD_BITS] >> cpu % WORD_BITS & 1)
