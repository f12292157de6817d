"""What people ask of a running gang."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.seeing.requests import MOST_STEPS, NewRequests, SeeingRequest


def test_request_is_heard_once_when_it_came_after_the_start(tmp_path: Path) -> None:
    SeeingRequest("old").write(tmp_path, "profile")
    requests = NewRequests(tmp_path, "profile")
    assert requests.next() is None
    SeeingRequest("new", steps=3).write(tmp_path, "profile")
    assert requests.next() == SeeingRequest("new", steps=3)
    assert requests.next() is None


@pytest.mark.parametrize("content", ["", "[]", '{"id": "a"}', '{"id": "a", "steps": "many"}'])
def test_what_is_no_request_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "request-profile.json").write_text(content)
    assert SeeingRequest.read(tmp_path, "profile") is None


@pytest.mark.parametrize("steps", [0, MOST_STEPS + 1])
def test_request_is_refused_with_the_limit_when_it_asks_for_too_many_steps(tmp_path: Path, steps: int) -> None:
    with pytest.raises(ValueError, match=f"profile of {steps} steps was asked for; from 1 to {MOST_STEPS}"):
        SeeingRequest("a", steps).write(tmp_path, "profile")
