from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gang_ledgers.run_dirs import LONGEST_NAME, run_dir, safe_name


@pytest.mark.parametrize(
    ("gang_id", "name"),
    [
        ("nightly/manual__2013-01-10/train", "nightly=2Fmanual__2013-01-10=2Ftrain"),
        ("d/scheduled__2013-01-10T02:00:00+00:00/t", "d=2Fscheduled__2013-01-10T02=3A00=3A00+00=3A00=2Ft"),
        ("..", "=2E."),
        ("a=2Fb", "a=3D2Fb"),
        ("ä", "=C3=A4"),
    ],
)
def test_name_is_a_plain_folder_name(gang_id: str, name: str) -> None:
    assert safe_name(gang_id) == name
    assert run_dir(Path("/runs"), gang_id, 2) == f"/runs/{name}/submission-2"


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_gangs_have_different_folders(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) is (one == other)
    assert "/" not in safe_name(one)


def test_long_names_stay_short_and_apart() -> None:
    one, other = safe_name("d/" + "x" * 500 + "/a"), safe_name("d/" + "x" * 500 + "/b")
    assert one != other
    assert max(len(one), len(other)) <= LONGEST_NAME
