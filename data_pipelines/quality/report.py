"""The gate's verdict as one small HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from data_pipelines.manifest import Manifest
from data_pipelines.quality.check import Outcome, Severity

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }}
body {{ margin: 2rem auto; max-width: 72rem; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100%; margin: 1rem 0 }}
th, td {{ text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #8885 }}
.verdict {{ font-weight: 600 }}
.pass {{ color: light-dark(#116329, #56d364) }}
.warn {{ color: light-dark(#8a5a00, #e3b341) }}
.fail {{ color: light-dark(#b3261e, #ff7b72) }}
</style>
<h1>{title}</h1>
<p class="{style}"><span class="verdict">{verdict}</span></p>
{body}
</html>
"""


def render(
    dataset: str, sentence: str, outcomes: Sequence[Outcome], manifests: Sequence[Manifest], problems: Sequence[str]
) -> str:
    """The page: verdict, broken files if any, checks (failures first), and the partitions that were looked at."""
    fails = bool(problems) or any(outcome.stops for outcome in outcomes)
    warns = any(not outcome.passed for outcome in outcomes)
    body = []
    if problems:
        body.append(_table(["What is wrong with the files"], ([_cell(problem)] for problem in problems)))
    if outcomes:
        ordered = sorted(outcomes, key=lambda outcome: (outcome.passed, not outcome.stops))
        columns = ["", "Column", "Expected", "Observed", "Examples", "What to do"]
        body.append(_table(columns, (_row(outcome) for outcome in ordered)))
    if manifests:
        columns = ["Partition", "Rows", "Dropped", "Notes", "Digest"]
        body.append("<h2>Partitions</h2>" + _table(columns, (_partition(manifest) for manifest in manifests)))
    return PAGE.format(
        title=escape(f"Quality of {dataset}"),
        style="fail" if fails else "warn" if warns else "pass",
        verdict=escape(sentence),
        body="\n".join(body),
    )


def _row(outcome: Outcome) -> list[str]:
    if outcome.passed:
        mark = '<td class="pass">pass</td>'
    elif outcome.check.severity is Severity.WARN:
        mark = '<td class="warn">warning</td>'
    else:
        mark = '<td class="fail">fail</td>'
    said = (outcome.check.column, outcome.check.limit, outcome.observed, ", ".join(outcome.examples))
    return [mark, *map(_cell, said), _cell("" if outcome.passed else outcome.check.advice)]


def _partition(manifest: Manifest) -> list[str]:
    dropped = ", ".join(f"{count} {reason}" for reason, count in manifest.dropped.items() if count)
    said = (manifest.partition, f"{manifest.rows:,}", dropped, "; ".join(manifest.notes), manifest.digest[:12])
    return [_cell(text) for text in said]


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    return f"<table><tr>{head}</tr>\n" + "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "\n</table>"
