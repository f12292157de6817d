"""ValidateOperator: the quality gate; nothing is asked of a GPU before it has passed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from operators import places
from operators.batch import BatchOperator
from operators.job_process import BAD_DATA

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

GATE = "data_pipelines.gate"
REPORT = "index.html"


def report_folder(ti: Any) -> Path:
    """Where a try's report lies under the reports folder; also the end of its address."""
    mapped = f"-{ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    return Path(places.safe_name(ti.run_id), ti.task_id + mapped, f"try-{ti.try_number}")


def report_url(ti: Any) -> str:
    """The report's address on the API server, which a proxy may serve below a path of its own."""
    below = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{below}/phalanx/reports/{ti.dag_id}/{report_folder(ti).as_posix()}/{REPORT}"


class QualityReportLink(BaseOperatorLink):
    """The button on the task that opens its report."""

    name = "Quality report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The report of this try."""
        return report_url(ti_key)


class ValidateOperator(BatchOperator):
    """Checks partitions with a Great Expectations suite; a failure ends the run before anything is trained.

    Returns where the report is.

    Args:
        suite: the data set whose suite is used, `python -m data_pipelines.gate --dataset SUITE`.
        data: what `SparkPreprocessOperator` returned.
    """

    template_fields: Collection[str] = ("suite", "data")
    operator_extra_links = (QualityReportLink(),)
    ui_color = "#f5d7d7"

    def __init__(self, *, suite: str, data: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.suite = suite
        self.data = data

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the suite."""
        ti = context["ti"]
        folder = places.reports_dir() / ti.dag_id / report_folder(ti)
        folder.mkdir(parents=True, exist_ok=True)
        manifests = [argument for path in self.data["manifests"].values() for argument in ("--manifest", path)]
        result = self.run_job(GATE, "--dataset", self.suite, *manifests, "--report-dir", folder, may_fail=[BAD_DATA])
        for line in summary(result):
            self.log.info("%s", line)
        self.log.info("%s", f"report: {report_url(ti)} (the task's button {QualityReportLink.name!r})")
        if not result["passed"]:
            reasons = [*result["problems"], *(failure["sentence"] for failure in result["failed"])]
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            raise AirflowFailException(
                f"The quality gate {result['sentence']}. {reasons[0]}{more} Nothing was asked of the gang pool. "
                f"Report: {report_url(ti)}"
            )
        return {"report": report_url(ti), "sentence": result["sentence"]}


def summary(result: Mapping[str, Any]) -> list[str]:
    """What was found, as a table: one line for each check that isn't fulfilled, the worst first."""
    rows = [("refused", "", problem, "", "") for problem in result["problems"]]
    rows += [
        (verdict, found["column"], found["observed"], found["limit"], ", ".join(found["days"][:3]))
        for verdict, kind in (("failed", "failed"), ("warning", "warnings"))
        for found in result[kind]
    ]
    if rows:
        rows.insert(0, ("", "column", "observed", "expected", "days"))
    widths = [max(len(str(row[n])) for row in rows) for n in range(5)] if rows else []
    table = [
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [*table, str(result["sentence"])]
