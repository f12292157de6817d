from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx_cli.main import app

PODS = "job_id,gpus,gpu_milli,cpu_milli,memory_mib,gpu_type\na,1,1000,4000,1024,\nb,1,500,2000,1024,T4\nc,0,0,100,1,\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,65536,4,T4\nn-2,64000,65536,4,T4\nn-3,64000,65536,0,\n"


def phalanx(tmp_path: Path, *arguments: str, pods: str = PODS, nodes: str = NODES) -> tuple[int, str, str]:
    (tmp_path / "pods.csv").write_text(pods)
    (tmp_path / "nodes.csv").write_text(nodes)
    done = CliRunner().invoke(app, ["pack", str(tmp_path / "pods.csv"), str(tmp_path / "nodes.csv"), *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_json_holds_what_was_used(tmp_path: Path) -> None:
    code, said, _ = phalanx(tmp_path, "--demand", "1.3", "--seed", "4", "--json")
    found = json.loads(said)
    assert code == 0
    assert (found["gpu_allocation"], found["seed"], found["policy"], found["demand"]) == (100.0, 4, "fill", 1.3)
    assert (found["nodes"], found["gpus"]) == (2, 8)
    assert found["pods_placed"] == sum(width["placed"] for width in found["by_width"].values())
    assert found["pods_failed"] == sum(width["failed"] for width in found["by_width"].values()) > 0
    assert found["wall_s"] >= 0


def test_the_same_seed_gives_the_same_document(tmp_path: Path) -> None:
    first, second = (json.loads(phalanx(tmp_path, "--seed", "1", "--json")[1]) for _ in range(2))
    assert first | {"wall_s": 0} == second | {"wall_s": 0}


def test_people_get_a_table(tmp_path: Path) -> None:
    code, said, _ = phalanx(tmp_path, "--policy", "best-fit")
    assert code == 0
    assert "100.00 % of 8 GPUs on 2 nodes" in said
    assert "best-fit" in said
    assert [line.split()[0] for line in said.splitlines()[-4:]] == ["0", "share", "1", "all"]


@pytest.mark.parametrize(
    ("pods", "nodes", "said"),
    [
        pytest.param(PODS.replace("gpu_milli", "milli"), NODES, ["line 1", "'gpu_milli' is missing"], id="column"),
        pytest.param(PODS.replace("4000", "-4"), NODES, ["line 2", "'cpu_milli' is '-4'", "at least 0"], id="less"),
        pytest.param(PODS.replace("500", "half"), NODES, ["pods.csv, line 3", "'gpu_milli' is 'half'"], id="text"),
        pytest.param(PODS.replace("500", "1001"), NODES, ["line 3", "'gpu_milli' is '1001'", "1 to 1000"], id="much"),
        pytest.param(PODS.replace("b,1", "b,2"), NODES, ["line 3", "'gpu_milli' is '500'", "whole"], id="shares"),
        pytest.param(PODS.replace("c,0,0", "c,0,9"), NODES, ["line 4", "'gpu_milli' is '9'", "is 0"], id="none"),
        pytest.param(PODS.replace("4000", ""), NODES, ["line 2", "'cpu_milli' is ''", "whole number"], id="empty cell"),
        pytest.param(PODS.splitlines()[0] + "\n", NODES, ["pods.csv", "no rows", "at least one pod"], id="no pods"),
        pytest.param("", NODES, ["pods.csv, line 1", "'gpus' is missing", "nothing"], id="empty file"),
        pytest.param(PODS, NODES.replace("n-2", "n-1"), ["nodes.csv, line 3", "'sn' is 'n-1'", "no other"], id="twice"),
        pytest.param(PODS, NODES.replace("4,T4", "1.5,T4"), ["nodes.csv, line 2", "'gpu' is '1.5'"], id="part of one"),
        pytest.param(PODS, NODES.splitlines()[0] + "\n", ["nodes.csv", "at least one node"], id="no nodes"),
        pytest.param(PODS, NODES.replace("4,T4", "0,"), ["none of the 3 nodes has a GPU"], id="no GPUs"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_its_place_and_what_is_allowed(
    tmp_path: Path, pods: str, nodes: str, said: list[str]
) -> None:
    code, out, error = phalanx(tmp_path, pods=pods, nodes=nodes)
    assert (code, out) == (1, "")
    assert [part for part in said if part not in error] == []


@pytest.mark.parametrize("demand", ["0", "-1", "nan", "inf"])
def test_a_demand_is_refused_when_nothing_could_be_drawn_for_it(tmp_path: Path, demand: str) -> None:
    code, _, error = phalanx(tmp_path, "--demand", demand)
    assert code == 1
    assert "above 0 is allowed" in error


def test_json_tells_the_error_too(tmp_path: Path) -> None:
    code, said, _ = phalanx(tmp_path, "--policy", "worst", "--json")
    assert code == 1
    assert json.loads(said)["error"] == "policy 'worst' is unknown; allowed: fill, fgd, best-fit, first-fit"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pack", str(tmp_path / "none.csv"), str(tmp_path / "none.csv")])
    assert done.exit_code == 1
    assert "none.csv: can't be read" in done.stderr
