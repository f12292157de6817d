"""Model FLOPs utilisation: what the model's mathematics needed of what the devices could have done."""

from __future__ import annotations

import re

import torch

# Dense bf16 with fp32 accumulation, FLOP/s, as NVIDIA's data sheets give it (halved where they say "with sparsity"):
# nvidia.com/en-us/data-center/{a100,h100,h200,l4,l40s}; the same figures stand in torchtitan/tools/utils.py. The first
# whose words all occur in the device's name is taken, so the more special come first.
DENSE_BF16_FLOPS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("B200",), 2.25e15),
    (("H200", "NVL"), 836e12),
    (("H200",), 989e12),
    (("H100", "NVL"), 835e12),
    (("H100", "PCIe"), 756e12),
    (("H100",), 989e12),
    (("A100",), 312e12),
    (("L40S",), 362e12),
    (("L4",), 121e12),
)


def peak_flops_of(device_name: str) -> float | None:
    """FLOP/s of a device by the name that its driver gives; None for one that the table doesn't hold."""
    for words, flops in DENSE_BF16_FLOPS:
        if all(re.search(rf"\b{word}\b", device_name) for word in words):
            return flops
    return None


def own_peak_flops() -> float | None:
    """That of this rank's GPU; None without one, since a CPU's depends on clock and cores at the moment."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's
        return None
    return peak_flops_of(torch.cuda.get_device_name())


def utilisation(flops_per_s: float, peak: float | None, devices: int) -> float | None:
    """MFU as a share of 1, of `flops_per_s` over `devices` devices with `peak` each; None if the peak isn't known."""
    return flops_per_s / (peak * devices) if peak else None
