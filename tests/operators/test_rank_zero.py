from pathlib import Path

import pytest

from gang_backends.rank_log import rank_log
from operators.rank_zero import RankZeroLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = rank_log(tmp_path, 1)
    found.parent.mkdir(parents=True)
    return found


def test_whole_lines_are_read_once_as_they_come(path: Path, tmp_path: Path) -> None:
    log = RankZeroLog(str(tmp_path), 1)
    assert log.read_new(20) == []
    with path.open("w") as rank:
        rank.write("one\n\ntw")
        rank.flush()
        assert log.read_new(20) == ["one"]
        rank.write("o\nthree\n")
        rank.flush()
    assert log.read_new(20) == ["two", "three"]
    assert log.read_new(20) == []


def test_of_a_flood_the_newest_lines_are_told_and_where_the_others_are(path: Path, tmp_path: Path) -> None:
    path.write_text("".join(f"{n}\n" for n in range(100)))
    note, *told = RankZeroLog(str(tmp_path), 1).read_new(3)
    assert told == ["97", "98", "99"]
    assert note == f"... 97 more lines are in {path}"
