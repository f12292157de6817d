from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from training.parallel.layout import Layout


@pytest.mark.parametrize(
    ("layout", "ranks", "copies"),
    [
        pytest.param({}, 1, 1, id="one rank"),
        pytest.param({}, 4, 4, id="ddp"),
        pytest.param({"shard": 4}, 4, 1, id="fsdp"),
        pytest.param({"shard": 2}, 8, 4, id="hsdp"),
        pytest.param({"tensor": 4}, 4, 1, id="tensor"),
        pytest.param({"shard": 2, "tensor": 2}, 8, 2, id="hsdp and tensor"),
    ],
)
def test_what_the_degrees_leave_of_the_ranks_are_copies(layout: dict[str, Any], ranks: int, copies: int) -> None:
    assert Layout(**layout).replicate(ranks) == copies


@pytest.mark.parametrize(
    ("layout", "ranks", "said"),
    [
        pytest.param({"shard": 3}, 4, "shard 3 x tensor 1 = 3 does not divide 4 ranks", id="not divided"),
        pytest.param({"tensor": 2}, 4, r"averages parts of gradients with the wrong ranks\. Set", id="ddp x tensor"),
    ],
)
def test_ranks_that_do_not_go_with_the_degrees_are_refused(layout: dict[str, Any], ranks: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Layout(**layout).replicate(ranks)


def test_bf16_is_refused_where_nothing_keeps_float32_weights() -> None:
    with pytest.raises(ValidationError, match=r"DDP has no policy that keeps float32 weights\. Set layout\.shard"):
        Layout(precision="bf16")
