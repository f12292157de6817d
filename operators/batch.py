"""Base of the operators that run a batch job beside the task and read its result file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from operators import places
from operators.job_process import JobProcess


class BatchOperator(BaseOperator):
    """Runs `python -m ...`; the job's lines appear in the task's log, and it dies with the task."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._job: JobProcess | None = None

    def run_job(self, *arguments: str | Path, may_fail: Sequence[int] = ()) -> Mapping[str, Any]:
        """Run the job with `--json-result FILE` added, and return what it wrote there.

        Args:
            arguments: the module and its arguments.
            may_fail: exit codes after which there is a result all the same.

        Raises:
            AirflowException: the job failed (AirflowFailException: no retry can help), or left no result.
        """
        with tempfile.TemporaryDirectory(prefix="job-", dir=places.scratch_dir()) as folder:
            result = Path(folder) / "result.json"
            command = [*map(str, arguments), "--json-result", str(result)]
            self.log.info("%s", f"$ python -m {' '.join(command)}")
            self._job = JobProcess(command, lambda line: self.log.info("%s", line), cwd=Path(folder))
            try:
                self._job.run(may_fail=may_fail)
            finally:
                self._job = None
            try:
                found: Mapping[str, Any] = json.loads(result.read_text())
            except (OSError, ValueError) as error:
                raise AirflowException(
                    f"python -m {arguments[0]} ended, but its result file can't be read: {error}. "
                    f"It must hold one JSON object."
                ) from error
        return found

    def on_kill(self) -> None:
        """End the job and all that it started."""
        if self._job is not None:
            self._job.kill()
