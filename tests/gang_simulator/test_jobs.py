from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gang_simulator.csv_rows import BadTable
from gang_simulator.faults import Fault, read_faults
from gang_simulator.jobs import Job, in_order, read_jobs

HEADER = "job_id,submit_s,gpus,duration_s,user,vc,priority\n"


def written(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.csv.gz"])
def test_every_column_is_read_when_it_is_there(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, HEADER + "a,0.5,8,60,ann,research,3\nb,7,1.0,2.25,,,\n", name)
    assert read_jobs(path) == (Job("a", 0.5, 8, 60.0, "ann", "research", priority=3), Job("b", 7, 1, 2.25))


def test_columns_are_empty_when_the_file_has_only_those_that_are_needed(tmp_path: Path) -> None:
    path = written(tmp_path, "duration_s,gpus,submit_s,job_id,extra\n60,2,1,a,x\n")
    assert read_jobs(path) == (Job("a", 1, 2, 60),)


def test_a_priority_is_looked_up_when_it_is_the_name_of_a_class(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "a,0,1,60,,,night\n")
    assert read_jobs(path, {"night": 50})[0].priority == 50


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            HEADER + "a,0,1,60,,,\nb,0,x,60,,,\n",
            "line 3: column 'gpus' is 'x'; a whole number of at least 0 is allowed there",
            id="no number",
        ),
        pytest.param(HEADER + "a,0,1.5,60,,,\n", "line 2: column 'gpus' is '1.5'; a whole number", id="half a GPU"),
        pytest.param(
            HEADER + "a,0,1,-3,,,\n", "line 2: column 'duration_s' is '-3'; a number of at least 0", id="less"
        ),
        pytest.param(HEADER + "a,inf,1,3,,,\n", "line 2: column 'submit_s' is 'inf'; a number", id="endless"),
        pytest.param(HEADER + "a,,1,3,,,\n", "line 2: column 'submit_s' is ''; a number", id="nothing"),
        pytest.param(HEADER + ",0,1,3,,,\n", "line 2: column 'job_id' is ''; any name", id="no name"),
        pytest.param(HEADER + "a,0,1,3,,,\na,0,1,3,,,\n", "line 3: column 'job_id' is 'a'; a name", id="twice"),
        pytest.param(HEADER + "a,0,1,3,,,soon\n", "line 2: column 'priority' is 'soon'; a whole number", id="priority"),
        pytest.param(HEADER + "a,0,1\n", "line 2: has 3 cells; the header names 7 columns", id="short row"),
        pytest.param(HEADER + "a,0,1,3,,,,\n", "line 2: has more than 7 cells", id="long row"),
        pytest.param("job_id,gpus\na,1\n", "line 1: column 'submit_s' is missing", id="missing column"),
        pytest.param("", "line 1: column 'job_id' is missing; the header has: nothing", id="empty file"),
        pytest.param(HEADER, "has no rows", id="no rows"),
    ],
)
def test_a_bad_file_is_refused_with_its_place_when(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadTable) as error:
        read_jobs(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None], ids=["binary", "absent"])
def test_a_file_is_refused_when_it_can_not_be_read(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "jobs.csv.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadTable, match="can't be read"):
        read_jobs(path)


def test_ties_keep_the_order_of_the_file_when_the_seed_is_0() -> None:
    jobs = [Job("late", 9, 1, 1), *(Job(str(number), 3, 1, 1) for number in range(20))]
    assert [job.job_id for job in in_order(jobs, 0)] == [*(str(number) for number in range(20)), "late"]


def test_only_ties_are_shuffled_when_the_seed_is_another() -> None:
    jobs = [Job(f"{second}-{number}", second, 1, 1) for second in range(3) for number in range(20)]
    shuffled = in_order(jobs, 7)
    assert shuffled != in_order(jobs, 0)
    assert shuffled == in_order(jobs, 7)
    assert shuffled != in_order(jobs, 8)
    assert [job.submit_s for job in shuffled] == [job.submit_s for job in jobs]
    assert set(shuffled) == set(jobs)


def test_faults_name_nodes_or_number_them_when_read(tmp_path: Path) -> None:
    path = written(tmp_path, "node,start_s,end_s,class\n1,5,9,GPU\nnode-a,2,3,NIC\n7,0,1,GPU\n0,4,4,none\n")
    faults, passed_over = read_faults(path, ["node-a", "node-b"])
    assert faults == (Fault("node-a", 2, 3, "NIC"), Fault("node-b", 5, 9, "GPU"))
    assert passed_over == 1


@pytest.mark.parametrize("row", ["1,5,4,GPU", "-1,0,1,GPU", "x,0,1,GPU"], ids=["ends before", "negative", "unknown"])
def test_a_fault_is_refused_when_it_makes_no_sense(tmp_path: Path, row: str) -> None:
    path = written(tmp_path, f"node,start_s,end_s,class\n{row}\n")
    with pytest.raises(BadTable, match="line 2"):
        read_faults(path, ["node-a", "node-b"])
