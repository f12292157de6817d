from __future__ import annotations

import pytest

from gang_ledgers.history_check import overlaps
from gang_ledgers.ledger import HistoryRow
from tests.builders import NOON


def rows(*happened: str) -> list[HistoryRow]:
    """`"started 1.2"` is attempt 2 of submission 1; `"started b 1.2"` is another gang's."""
    found = []
    for number, said in enumerate(happened, start=1):
        event, *gang, key = said.split()
        submission, attempt = key.split(".")
        found.append(HistoryRow(number, NOON, gang[0] if gang else "a", int(submission), int(attempt), event, ""))
    return found


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param([], id="nothing"),
        pytest.param(["started 1.1", "ended 1.1", "started 1.2", "ended 1.2"], id="one after the other"),
        pytest.param(["started 1.1", "ended 1.1", "ended 1.1", "started 2.1"], id="next submission"),
        pytest.param(["started a 1.1", "started b 1.1"], id="two gangs"),
        pytest.param(["admitted 1.1", "ended 1.1", "admitted 1.2", "started 1.2"], id="never started"),
        pytest.param(["started 1.1", "started 1.1", "ended 1.1", "started 1.2"], id="said twice"),
    ],
)
def test_history_proves_that_nothing_ran_twice(happened: list[str]) -> None:
    assert overlaps(rows(*happened)) == []


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param(["started 1.1", "started 1.2"], id="two attempts"),
        pytest.param(["started 1.1", "started 2.1"], id="two submissions"),
        pytest.param(["started 1.1", "finished 1.1", "started 2.1"], id="finished is not ended"),
        pytest.param(["started 1.1", "started 1.2", "ended 1.1", "ended 1.2"], id="both ended later"),
    ],
)
def test_overlap_is_found_and_named(happened: list[str]) -> None:
    (found,) = overlaps(rows(*happened))
    assert "was started (history row" in str(found)
    assert "had not ended" in str(found)


def test_order_of_the_rows_given_does_not_matter() -> None:
    assert overlaps(reversed(rows("started 1.1", "ended 1.1", "started 1.2"))) == []
