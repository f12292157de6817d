from __future__ import annotations

from pathlib import Path

from gang_backends import rank_log


def write(run_dir: Path, content: bytes) -> None:
    path = rank_log.rank_log(run_dir, 1)
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as log:
        log.write(content)


def test_there_are_no_lines_when_the_log_is_not_there_yet(tmp_path: Path) -> None:
    assert rank_log.tail(tmp_path, 1, 0) == ([], 0)


def test_each_line_is_told_once_and_only_whole(tmp_path: Path) -> None:
    write(tmp_path, b"one\ntw")
    lines, offset = rank_log.tail(tmp_path, 1, 0)
    assert (lines, offset) == (["one"], 4)
    write(tmp_path, b"o\nthree\n")
    lines, offset = rank_log.tail(str(tmp_path), 1, offset)
    assert lines == ["two", "three"]
    assert rank_log.tail(tmp_path, 1, offset) == ([], offset)


def test_a_character_is_not_torn_when_the_log_ends_in_its_middle(tmp_path: Path) -> None:
    euro = "€\n".encode()
    write(tmp_path, euro[:2])
    lines, offset = rank_log.tail(tmp_path, 1, 0)
    assert lines == []
    write(tmp_path, euro[2:])
    assert rank_log.tail(tmp_path, 1, offset)[0] == ["€"]


def test_a_flood_is_read_in_pieces(tmp_path: Path) -> None:
    write(tmp_path, b"x" * 3 * rank_log.AT_MOST_BYTES + b"\nend\n")
    offset, seen = 0, []
    for _ in range(5):
        lines, offset = rank_log.tail(tmp_path, 1, offset)
        seen += lines
    assert seen[-1] == "end"
    assert sum(map(len, seen)) == 3 * rank_log.AT_MOST_BYTES + 3
