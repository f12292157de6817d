from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from phalanx_cli.main import app

JOBS = """job_id,submit_s,gpus,duration_s,user,vc
a,0,8,100,ann,red
b,10,8,50,bob,blue
c,20,1,5,ann,red
d,20,16,5,ann,red
"""
WANTED = shlex.split(
    "jobs mean_jct_s mean_queue_s p99_queue_s p999_queue_s lower_bound_s utilisation preemptions seed wall_s by_width "
    "by_queue fragmentation fairness work_lost_gpu_s goodput left_out"
)
POOLS = """
[pool.train]
[[pool.train.nodes]]
name = "n[0-1]"
cpus = 64
memory_gib = 512
gpus = 8
gpu_model = "h100"
[gpu.h100]
memory_gib = 80
[queue.red]
quota.train.gpus = 8
"""


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    return str(path)


def phalanx(*arguments: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(app, ["simulate", *arguments])
    assert done.exit_code == exit_code, done.output
    return done.stdout if exit_code == 0 else done.output


def document(*arguments: str, exit_code: int = 0) -> dict[str, Any]:
    found = json.loads(phalanx(*arguments, "--json", exit_code=exit_code))
    assert isinstance(found, dict)
    return found


def test_json_holds_every_figure_when_asked_for(jobs: str) -> None:
    said = "--nodes 1 --gpus-per-node 8 --policy fifo --blocking head --restart-cost none --seed 0"
    arguments = shlex.split(said)
    found = document(jobs, *arguments)
    assert found.keys() >= set(WANTED)
    assert (found["jobs"], found["mean_jct_s"], found["seed"]) == (3, (100 + 140 + 135) / 3, 0)
    assert [job["job_id"] for job in found["left_out"]] == ["d"]
    assert found["running_gangs"] == "are never stopped but by faults"


@pytest.mark.parametrize("policy", ["default", "fifo", "sjf", "srsf", "las"])
@pytest.mark.parametrize("blocking", ["head", "easy", "none"])
def test_every_policy_replays_when_named(jobs: str, policy: str, blocking: str) -> None:
    found = document(jobs, *f"--nodes 2 --gpus-per-node 8 --policy {policy} --blocking {blocking}".split())
    assert (found["jobs"], found["policy"], found["blocking"]) == (4, policy, blocking)
    assert found["durations"] == ("unknown" if policy == "las" else "known")


def test_two_configurations_stand_side_by_side_when_one_is_a_what_if(jobs: str, tmp_path: Path) -> None:
    changes = tmp_path / "more.toml"
    changes.write_text('nodes = "+1"\npolicy = "srsf"\n')
    for what_if in ("nodes=+1 policy=srsf", str(changes)):
        found = document(jobs, "--nodes", "1", "--gpus-per-node", "8", "--what-if", what_if)
        assert (found["gpus"], found["what_if"]["gpus"], found["what_if"]["policy"]) == (8, 16, "srsf")
    told = phalanx(jobs, "--nodes", "1", "--gpus-per-node", "8", "--what-if", "nodes=+1")
    assert "as it is" in told
    assert "2 nodes x 8 GPUs" in told


def test_queues_and_nodes_are_those_of_the_file_when_it_is_given(jobs: str, tmp_path: Path) -> None:
    pools = tmp_path / "pools.toml"
    pools.write_text(POOLS)
    found = document(jobs, "--pools", str(pools))
    assert found["cluster"] == "2 nodes with GPUs of pools.toml"
    assert found["jobs"] + len(found["left_out"]) + len(found["never_started"]) == 4
    assert found["gpus"] == 16


def test_the_report_needs_no_other_file_when_written(jobs: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    faults = tmp_path / "faults.csv"
    faults.write_text("node,start_s,end_s\n0,30,60\n")
    arguments = ["--nodes", "1", "--gpus-per-node", "8", "--faults", str(faults), "--what-if", "nodes=+1"]
    phalanx(jobs, *arguments, "--report", str(report))
    page = report.read_text()
    assert page.count("<svg") == 5
    assert "as it might be" in page
    assert not [part for part in ("src=", "<link", "<script") if part in page]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no cluster was given; give --nodes and --gpus-per-node, or --pools FILE"),
        (["--nodes", "1", "--gpus-per-node", "8", "--pools", "p.toml"], "both --pools p.toml and --nodes"),
        (["--nodes", "0", "--gpus-per-node", "8"], "both have to be at least 1"),
        (["--nodes", "1", "--gpus-per-node", "8", "--restart-cost", "7"], "restart_cost"),
        (["--nodes", "1", "--gpus-per-node", "8", "--what-if", "colour=red"], "There is no such choice; there are"),
        (["--nodes", "1", "--gpus-per-node", "8", "--what-if", "nodes=-1"], "a whole number of at least 1"),
        (["--nodes", "1", "--gpus-per-node", "8", "--what-if", "nodes"], "'nodes' is no change"),
        (["--nodes", "1", "--gpus-per-node", "8", "--faults", "none.csv"], "none.csv: can't be read"),
        (["--pools", "none.toml"], "none.toml"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
def test_a_wrong_request_says_what_to_do_when(jobs: str, arguments: list[str], said: str) -> None:
    assert said in document(jobs, *arguments, exit_code=1)["error"]


def test_a_bad_row_is_named_when_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS + "e,30,many,5,,\n")
    told = document(str(path), "--nodes", "1", "--gpus-per-node", "8", exit_code=1)["error"]
    assert told == f"{path}, line 6: column 'gpus' is 'many'; a whole number of at least 0 is allowed there"
