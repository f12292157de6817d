"""Where the time of a step is said to go."""

from __future__ import annotations

import pytest

from training.seeing import step_clock
from training.seeing.step_clock import PARTS, StepClock


class Hands:
    """A clock that a test moves."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(step_clock, "time", hands)
    return hands


def test_each_part_gets_the_time_since_the_lap_before(hands: Hands) -> None:
    clock = StepClock()
    before = clock.read()
    for _ in range(2):
        hands.now += 1.0
        clock.skip()
        for seconds, part in enumerate(PARTS, start=1):
            hands.now += seconds
            clock.lap(part)
        clock.step()
    expected = {str(part): float(seconds) for seconds, part in enumerate(PARTS, start=1)}
    assert clock.read().split_since(before) == expected | {"other": 1.0}
    assert clock.read().own_seconds_since(before) == 2 * (1 + 2)


def test_there_is_no_split_when_no_step_was_made(hands: Hands) -> None:
    clock = StepClock()
    before = clock.read()
    clock.lap("data")
    assert clock.read().split_since(before) is None
