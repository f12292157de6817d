"""Several processes at once; a partition here is a table of one row, so that no Spark is needed."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa
import pytest

from data_pipelines.manifest import InputFile, Manifest, NewerManifest, manifest_path
from data_pipelines.partition_build import Built, Want, build_missing
from data_pipelines.partition_writer import write_partition

DATASET, CODE = "things", "c" * 64
DEADLINE_S = 60.0
processes = multiprocessing.get_context("spawn")


def wanting(data_dir: Path, names: Sequence[str], code: str = CODE) -> Want:
    return Want(data_dir, DATASET, {name: (InputFile(f"raw/{name}", 1, name),) for name in names}, code)


def writing(want: Want, log: Path, before: Callable[[], None] = lambda: None) -> Callable[[Sequence[str]], None]:
    def build(names: Sequence[str]) -> None:
        for name in names:
            with log.open("a") as file:
                file.write(f"{os.getpid()} {name}\n")
            before()
            table = pa.table({"name": [name]})
            inputs = want.inputs[name]
            write_partition(
                want.data_dir, DATASET, name, table, inputs=inputs, code_version=want.code_version, dropped={}, notes=()
            )

    return build


def build_slowly(data_dir: Path, names: Sequence[str], log: Path) -> None:
    want = wanting(data_dir, names)
    build_missing(want, writing(want, log, before=lambda: time.sleep(0.2)))


def hang_at_the_first(data_dir: Path, names: Sequence[str], log: Path) -> None:
    want = wanting(data_dir, names)
    build_missing(want, writing(want, log, before=lambda: time.sleep(10 * DEADLINE_S)))


def started(target: Callable[..., None], *arguments: object) -> BaseProcess:
    process = processes.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it didn't happen in time"
        time.sleep(0.02)


def built_names(log: Path) -> list[str]:
    return sorted(line.split()[1] for line in log.read_text().splitlines())


def test_each_partition_is_built_once_when_four_processes_want_overlapping_windows(tmp_path: Path) -> None:
    names = [f"p{n}" for n in range(6)]
    windows = [names[:4], names[2:], names[::-1], names[1:5]]
    log = tmp_path / "log"
    everyone = [started(build_slowly, tmp_path / "data", window, log) for window in windows]
    for process in everyone:
        process.join(DEADLINE_S)
    assert [process.exitcode for process in everyone] == [0, 0, 0, 0]
    assert built_names(log) == names


def test_a_waiter_takes_over_when_the_builder_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    holder = started(hang_at_the_first, tmp_path / "data", ["p0", "p1"], log)
    wait_until(log.exists)

    class KillHolderOnceWaiting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert "is being built by" in record.getMessage()
            assert holder.pid is not None
            os.kill(holder.pid, signal.SIGKILL)

    want = wanting(tmp_path / "data", ["p1", "p2"])
    logger, handler = logging.getLogger("data_pipelines.partition_build"), KillHolderOnceWaiting()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        built = build_missing(want, writing(want, log))
    finally:
        logger.removeHandler(handler)
    assert built == Built(here=["p2", "p1"], elsewhere=[])
    holder.join(DEADLINE_S)
    assert holder.exitcode == -signal.SIGKILL


def test_the_holder_is_named_when_a_partition_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    holder = started(build_slowly, tmp_path / "data", ["p0", "p1", "p2"], log)
    wait_until(log.exists)
    want = wanting(tmp_path / "data", ["p2"])
    with caplog.at_level("INFO", logger="data_pipelines"):
        built = build_missing(want, writing(want, log))
    assert built == Built(here=[], elsewhere=["p2"])
    assert f"things p2 is being built by process {holder.pid} on" in caplog.text
    holder.join(DEADLINE_S)
    assert built_names(log) == ["p0", "p1", "p2"]


def test_only_what_changed_is_built_when_inputs_code_or_files_did(tmp_path: Path) -> None:
    log = tmp_path / "log"
    want = wanting(tmp_path, ["p0", "p1"])
    assert build_missing(want, writing(want, log)).here == ["p0", "p1"]
    assert build_missing(want, writing(want, log)).here == []
    changed = Want(tmp_path, DATASET, {**want.inputs, "p1": (InputFile("raw/p1", 2, "new"),)}, CODE)
    assert build_missing(changed, writing(changed, log)).here == ["p1"]
    newer_code = Want(tmp_path, DATASET, changed.inputs, "d" * 64)
    assert build_missing(newer_code, writing(newer_code, log)).here == ["p0", "p1"]
    manifest = Manifest.read(manifest_path(tmp_path, DATASET, "p0"))
    (tmp_path / DATASET / "day=p0" / manifest.files[0].path).unlink()
    assert build_missing(newer_code, writing(newer_code, log)).here == ["p0"]


def test_a_newer_manifest_is_not_overwritten_when_an_older_program_meets_it(tmp_path: Path) -> None:
    path = manifest_path(tmp_path, DATASET, "p0")
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 9}')
    want = wanting(tmp_path, ["p0"])
    with pytest.raises(NewerManifest):
        build_missing(want, writing(want, tmp_path / "log"))
    assert path.read_text() == '{"schema_version": 9}'


def test_readers_of_the_old_manifest_keep_their_files_when_the_content_changes(tmp_path: Path) -> None:
    def write(value: int) -> Manifest:
        table = pa.table({"value": [value]})
        return write_partition(tmp_path, DATASET, "p0", table, inputs=(), code_version=CODE, dropped={}, notes=())

    folder = tmp_path / DATASET / "day=p0"
    old, new = write(1), write(2)
    old.verify(folder)
    new.verify(folder)
    assert write(1).files == old.files
    (folder / old.files[0].path).write_bytes(b"damaged")
    (folder / ".building-dead").mkdir()
    (folder / ".manifest.json.1").write_text("{")
    write(1).verify(folder)
    assert sorted(path.name for path in folder.glob(".*")) == []
