from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators.validate import QualityReportLink, ValidateOperator, summary

FAILURE = {
    "column": "dep_delay",
    "observed": "40 % null",
    "limit": "at most 5 % null",
    "days": ["2013-01-10"],
    "sentence": "dep_delay: observed 40 % null; expected at most 5 % null. Deliver the day again.",
}
DATA = {"manifests": {"2013-01-09": "/data/a.json", "2013-01-10": "/data/b.json"}}


def a_result(**changes: Any) -> dict[str, Any]:
    return {"passed": True, "sentence": "passed: 10 rows", "problems": [], "failed": [], "warnings": []} | changes


@pytest.fixture
def gate(a_module: Callable[[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a gate with a canned verdict into the place of the real one; returns the file where it notes its options."""

    def make(result: dict[str, Any], exit_code: int) -> Path:
        noted = tmp_path / "noted.json"
        name = a_module(
            "fake_gate",
            f"""
            Path({str(noted)!r}).write_text(json.dumps(given))
            Path(given["--report-dir"][0], "index.html").write_text("<h1>report</h1>")
            answer(**{result!r})
            sys.exit({exit_code})
            """,
        )
        monkeypatch.setattr("operators.validate.GATE", name)
        return noted

    return make


def test_all_partitions_pass_and_the_report_is_where_the_button_leads(
    home: Path, ti: Any, gate: Callable[..., Path]
) -> None:
    noted = gate(a_result(), 0)
    operator = ValidateOperator(task_id="task", suite="flights", data=DATA)
    output = operator.execute({"ti": ti})
    assert output["report"] == QualityReportLink().get_link(operator, ti_key=ti)
    assert output["report"].startswith("/phalanx/reports/nightly/")
    assert (home / "reports" / output["report"].removeprefix("/phalanx/reports/")).is_file()
    assert '"--manifest": ["/data/a.json", "/data/b.json"]' in noted.read_text()


def test_a_refusal_ends_the_run_with_its_reason_and_the_report(home: Path, ti: Any, gate: Callable[..., Path]) -> None:
    gate(a_result(passed=False, sentence="refused: 1 failed", failed=[FAILURE]), 65)
    with pytest.raises(
        AirflowFailException, match=r"refused: 1 failed. dep_delay: observed 40 % null.*/phalanx/reports"
    ):
        ValidateOperator(task_id="task", suite="flights", data=DATA).execute({"ti": ti})


def test_the_summary_is_a_table_with_the_worst_first() -> None:
    warning = {"column": "tail", "observed": "3 % unknown", "limit": "at most 2 %", "days": []}
    lines = summary(a_result(problems=["file x is missing"], failed=[FAILURE], warnings=[warning], sentence="refused"))
    assert [line.split()[0] for line in lines] == ["column", "refused", "failed", "warning", "refused"]
    assert lines[2].index("40 %") == lines[3].index("3 %")
