"""Checkpoints in object storage: objects, then the manifest; brought back whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.day_partitions import a_spec
from tests.training.lone_run import run_alone
from training.checkpoint_manifest import COMMIT, committed
from training.checkpoints.remote import storage_of
from training.exit_codes import BadData, BadSpec
from training.fault_injection import FaultInjection, InjectedFault
from training.recipes.flights_spec import FlightsSpec, Partition


@pytest.fixture
def memory() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    yield "memory://bucket/prefix"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A bucket of a real S3 server, moto's."""
    s3fs = pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "any")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        s3fs.S3FileSystem().mkdir("bucket")
        yield "s3://bucket/prefix"
    server.stop()


@pytest.fixture(scope="module")
def undisturbed(four_days: list[Partition], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_alone(folder, a_spec(four_days, workers=1))
    return folder


def spec_with(four_days: list[Partition], storage: str) -> FlightsSpec:
    return a_spec(four_days, workers=1, checkpoint_storage=storage)


def fail_once(run_dir: Path, spec: FlightsSpec) -> None:
    with pytest.raises(InjectedFault):
        run_alone(run_dir, spec, fault=FaultInjection(rank=0, step=14, how="raise"))


def losses_in(run_dir: Path) -> str:
    return (run_dir / "losses.jsonl").read_text()


@pytest.mark.parametrize("storage", ["memory", "s3"])
def test_the_run_is_the_same_when_it_goes_on_from_object_storage(
    storage: str,
    four_days: list[Partition],
    undisturbed: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = spec_with(four_days, request.getfixturevalue(storage))
    fail_once(tmp_path, spec)
    run_alone(tmp_path, spec)
    assert "resumed from step 10 of attempt 1" in capsys.readouterr().out
    assert losses_in(tmp_path) == losses_in(undisturbed)
    assert not (tmp_path / "checkpoints").exists()
    steps = [folder.name for folder in committed(storage_of(tmp_path, spec.checkpoint_storage))]
    assert steps == ["step-00000024", "step-00000020", "step-00000015"]
    run_alone(tmp_path / "next", spec, resume_from=tmp_path)
    assert "resumed from step 24 of an earlier submission" in capsys.readouterr().out


def test_a_torn_object_is_passed_over_and_one_without_a_manifest_is_no_checkpoint(
    memory: str, four_days: list[Partition], undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_with(four_days, memory)
    fail_once(tmp_path, spec)
    newest, before = committed(storage_of(tmp_path, memory))
    (newest / "attempt-1-rank-0.safetensors").write_bytes(b"torn")
    run_alone(tmp_path, spec)
    out = capsys.readouterr().out
    assert "passed over a torn checkpoint" in out
    assert f"resumed from step {int(before.name[5:])} of attempt 1" in out
    assert losses_in(tmp_path) == losses_in(undisturbed)


def test_it_is_an_error_and_no_fresh_start_when_no_object_can_be_verified(
    memory: str, four_days: list[Partition], tmp_path: Path
) -> None:
    spec = spec_with(four_days, memory)
    fail_once(tmp_path, spec)
    for folder in committed(storage_of(tmp_path, memory)):
        (folder / COMMIT).write_bytes(b"torn")
    with pytest.raises(BadData, match="none of 2 committed checkpoints can be brought"):
        run_alone(tmp_path, spec)


def test_a_storage_without_a_driver_is_a_bad_spec(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="Install the driver"):
        storage_of(tmp_path, "nosuch://bucket")


def test_an_address_on_this_machine_is_a_folder(tmp_path: Path) -> None:
    found = storage_of(tmp_path / "run", f"file://{tmp_path}/elsewhere")
    assert isinstance(found, Path)
    assert found.parent == tmp_path / "elsewhere"
