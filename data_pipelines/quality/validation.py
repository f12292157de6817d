"""Runs checks through Great Expectations over pandas tables, in this process and without any project folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.core.expectation_suite import ExpectationSuite
from great_expectations.data_context.types import base
from great_expectations.expectations.metadata_types import FailureSeverity

from data_pipelines.job_errors import JobError
from data_pipelines.quality.check import About, Check, Outcome

INDEX = {About.ROWS: ["partition", "flight_id"], About.DAYS: ["partition"]}
EXAMPLES = 5


def validate(checks: Sequence[Check], tables: Mapping[About, pd.DataFrame]) -> list[Outcome]:
    """What each check finds, in the order of the checks.

    Raises:
        JobError: an expectation could not be evaluated at all.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = base.ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("partitions")
    found: dict[int, Outcome] = {}
    for about, table in tables.items():
        numbered = {n: check for n, check in enumerate(checks) if check.about is about}
        suite = ExpectationSuite(name=about.value)
        for n, check in numbered.items():
            check.expectation.severity = FailureSeverity(check.severity.value)
            check.expectation.meta = {"check": n}
            suite.add_expectation(check.expectation)
        batch = source.add_dataframe_asset(about.value).add_batch_definition_whole_dataframe("all")
        result_format = {
            "result_format": "COMPLETE",
            "unexpected_index_column_names": INDEX[about],
            "return_unexpected_index_query": False,
        }
        results = batch.get_batch({"dataframe": table}).validate(suite, result_format=result_format)
        for result in results.results:
            as_json: dict[str, Any] = result.to_json_dict()
            n = as_json["expectation_config"]["meta"]["check"]
            found[n] = _outcome(numbered[n], as_json)
    return [found[n] for n in sorted(found)]


def _outcome(check: Check, found: Mapping[str, Any]) -> Outcome:
    result = found["result"]
    if "element_count" not in result:
        raise JobError(
            f"expectation {check.expectation.expectation_type} on {check.column} can't be evaluated: "
            f"{_problem(found.get('exception_info') or {})}"
        )
    unexpected, total = result.get("unexpected_count", 0), result["element_count"]
    places = result.get("unexpected_index_list") or []
    examples = tuple(_example(check, place) for place in places[:EXAMPLES])
    days = tuple(sorted({str(place["partition"]) for place in places}))
    things = "rows" if check.about is About.ROWS else "days"
    observed = f"{unexpected:,} of {total:,} {things} outside" if unexpected else f"all of {total:,} {things} inside"
    return Outcome(check, bool(found["success"]), observed, examples, days)


def _example(check: Check, place: Mapping[str, Any]) -> str:
    value = place.get(check.column)
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    where = place["partition"] if check.about is About.DAYS else place["flight_id"]
    return f"{shown} on {where}" if check.about is About.DAYS else f"{shown} in {where}"


def _problem(info: Mapping[str, Any]) -> str:
    if message := info.get("exception_message"):
        return str(message)
    messages = [entry.get("exception_message") for entry in info.values() if isinstance(entry, Mapping)]
    return "; ".join(str(message) for message in messages if message) or "no reason was given"
