import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from operators.job_process import JobProcess, job_environment


def a_job(folder: Path, source: str) -> list[str]:
    """A module to be run by `python -m` with `folder` as its working directory."""
    (folder / "a_job.py").write_text(textwrap.dedent(source))
    return ["a_job"]


def test_a_job_s_lines_are_told_in_order(tmp_path: Path) -> None:
    told: list[str] = []
    assert JobProcess(a_job(tmp_path, "print('one'); print('two')"), told.append, cwd=tmp_path).run() == 0
    assert told == ["one", "two"]


@pytest.mark.parametrize(
    ("exit_code", "error", "said"),
    [
        (65, AirflowFailException, "ended with exit code 65: its data are bad. Its last line: column 'x' is missing"),
        (64, AirflowFailException, "its arguments are wrong"),
        (70, AirflowException, "it broke with a program error"),
        (3, AirflowException, "ended with exit code 3"),
    ],
)
def test_an_exit_code_becomes_an_error_that_names_it(
    tmp_path: Path, exit_code: int, error: type[Exception], said: str
) -> None:
    job = a_job(tmp_path, f"print(\"column 'x' is missing\"); raise SystemExit({exit_code})")
    with pytest.raises(error, match=said) as raised:
        JobProcess(job, lambda _: None, cwd=tmp_path).run()
    assert type(raised.value) is error


def test_an_allowed_exit_code_is_returned(tmp_path: Path) -> None:
    assert JobProcess(a_job(tmp_path, "raise SystemExit(65)"), lambda _: None, cwd=tmp_path).run(may_fail=[65]) == 65


def test_a_killed_job_names_the_signal(tmp_path: Path) -> None:
    job = a_job(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(AirflowException, match="was killed by SIGKILL"):
        JobProcess(job, lambda _: None, cwd=tmp_path).run()


WITH_A_CHILD = """
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, flush=True)
    time.sleep(600)
"""


def test_kill_ends_the_job_and_what_it_started(tmp_path: Path, eventually: Callable[..., None]) -> None:
    told: list[str] = []
    job = JobProcess(a_job(tmp_path, WITH_A_CHILD), told.append, cwd=tmp_path)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            job.run()
        except AirflowException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: bool(told), "the job to start its child")
    job.kill()
    thread.join(timeout=30)
    eventually(lambda: _is_gone(int(told[0])), "the child to end")
    assert "was stopped" in str(errors[0])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_job_dies_when_its_task_s_process_is_killed(tmp_path: Path, eventually: Callable[..., None]) -> None:
    a_job(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    task = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from operators.job_process import JobProcess;"
            "JobProcess(['a_job'], lambda line: print(line, flush=True), cwd=Path(sys.argv[1])).run()",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert task.stdout is not None
    job_pid = int(task.stdout.readline())
    task.send_signal(signal.SIGKILL)
    task.wait(timeout=30)
    task.stdout.close()
    eventually(lambda: _is_gone(job_pid), "the job to die")


def test_a_job_s_environment_holds_nothing_of_airflow_and_no_ledger_credentials() -> None:
    environment = job_environment(
        {
            "PATH": os.environ["PATH"],
            "PHALANX_HOME": "/state",
            "PHALANX_LEDGER_URL_FILE": "/state/ledger.url",
            "AIRFLOW__CORE__FERNET_KEY": "secret",
            "AIRFLOW_CTX_DAG_ID": "d",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
    )
    assert set(environment) == {"PATH", "PHALANX_HOME", "PYTHONUNBUFFERED", "GX_ANALYTICS_ENABLED"}


def _is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
