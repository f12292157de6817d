from __future__ import annotations

import pytest

from pool_settings.name_ranges import expand, spread


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu", ("gpu",)),
        ("gpu-[08-11]", ("gpu-08", "gpu-09", "gpu-10", "gpu-11")),
        ("n[1,3-4]", ("n1", "n3", "n4")),
        ("r[1-2]-n[01-02].dc", ("r1-n01.dc", "r1-n02.dc", "r2-n01.dc", "r2-n02.dc")),
    ],
)
def test_ranges_stand_for_every_name_in_order(pattern: str, names: tuple[str, ...]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    "pattern",
    ["", "[", "a[", "a]", "a[]", "a[x]", "a[3-1]", "a[1-2", "a[-1]", "-a", "a b", "a[100-99]", "ä", "a\n"],
)
def test_malformed_names_are_refused_with_an_example(pattern: str) -> None:
    with pytest.raises(ValueError, match='such as "gpu-'):
        expand(pattern)


@pytest.mark.parametrize("pattern", ["n[0-999999999]", "n[0-9999]-[0-9999]"], ids=["wide", "product"])
def test_mistyped_range_does_not_fill_the_memory(pattern: str) -> None:
    with pytest.raises(ValueError, match="at most 200000"):
        expand(pattern)


def test_domains_are_spread_over_consecutive_nodes() -> None:
    assert spread("leaf-[0-1]", 4) == ("leaf-0", "leaf-0", "leaf-1", "leaf-1")
    with pytest.raises(ValueError, match="3 domains, which do not divide the 4 nodes"):
        spread("leaf-[0-2]", 4)
