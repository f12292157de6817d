from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool_settings.durations import duration, written


@pytest.mark.parametrize(
    ("said", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1.5)),
        ("1.5h", timedelta(hours=1.5)),
        ("7d", timedelta(days=7)),
        ("0s", timedelta()),
    ],
)
def test_duration_is_read_as_people_write_it(said: str, length: timedelta) -> None:
    assert duration(said) == length


@pytest.mark.parametrize(
    "said", ["", "5", "m", "5 m", "-5m", "5m1h", "1e3s", "99999999d", "9" * 400 + "d", 5, True, None]
)
def test_what_is_no_duration_is_refused_with_what_is_one(said: object) -> None:
    with pytest.raises(ValueError, match='a duration such as "90s"'):
        duration(said)


@given(st.integers(0, 10**9))
def test_duration_is_read_again_as_it_was_written(seconds: int) -> None:
    assert duration(written(timedelta(seconds=seconds))) == timedelta(seconds=seconds)
