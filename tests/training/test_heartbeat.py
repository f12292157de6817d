from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.heartbeat import NAME, Heartbeat, read, write

BEAT = Heartbeat(
    step=3,
    total_steps=10,
    samples=300,
    loss=0.5,
    throughput_samples_per_s=100.0,
    eta_s=7.0,
    last_committed_step=None,
    last_committed_at=None,
    attempt=2,
    launch=4,
    at="2013-01-01T00:00:00+00:00",
    phase="training",
)


def test_a_heartbeat_reads_back_when_it_was_written_over_another(tmp_path: Path) -> None:
    write(tmp_path, BEAT)
    write(tmp_path, BEAT)
    assert read(tmp_path) == BEAT
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, BEAT)
    content = json.loads((tmp_path / NAME).read_text())
    (tmp_path / NAME).write_text(json.dumps(content | {"temperature": 40}))
    assert read(tmp_path) == BEAT


@pytest.mark.parametrize("content", [None, "", "[]", '{"step": 3}'])
def test_there_is_none_when_the_file_is_missing_or_something_else(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / NAME).write_text(content)
    assert read(tmp_path) is None
