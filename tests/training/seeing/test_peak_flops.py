"""What a device could do at most."""

from __future__ import annotations

import pytest

from training.seeing.peak_flops import own_peak_flops, peak_flops_of, utilisation


@pytest.mark.parametrize(
    ("name", "tera"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H200 NVL", 836),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("NVIDIA B200", 2250),
    ],
)
def test_peak_is_the_data_sheet_s_when_the_driver_s_name_is_known(name: str, tera: float) -> None:
    assert peak_flops_of(name) == tera * 1e12


@pytest.mark.parametrize("name", ["NVIDIA L400", "NVIDIA GB200", "Radeon"])
def test_nothing_is_guessed_when_the_name_is_not_known(name: str) -> None:
    assert peak_flops_of(name) is None


def test_utilisation_is_absent_without_a_peak() -> None:
    assert own_peak_flops() is None
    assert utilisation(1e12, None, 2) is None
    assert utilisation(1e12, 1e12, 2) == 0.5
