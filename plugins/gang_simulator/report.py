"""The report of a simulation, or of two side by side: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from gang_simulator.comparison import HEADLINES, rows_of
from gang_simulator.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: #1c2733 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: .8rem 0 } th, td { padding: .25rem .8rem; border-bottom: 1px solid #d9e0e7 }
th { text-align: left } td.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 0 } figcaption { color: #5a6875 } svg { max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) { body { background: #fff } }
"""


def write_report(path: Path, simulations: Sequence[Simulation], trace: str) -> None:
    """Write the page.

    Args:
        path: the file.
        simulations: one, or the one as it is and the one as it might be.
        trace: what was replayed, for the title.

    Raises:
        ImportError: matplotlib is not installed; the message says what to do.
    """
    try:
        from gang_simulator import charts
    except ModuleNotFoundError as error:
        raise ImportError(
            f"a report was asked for ({path}), and its plots need {error.name}, which is not installed. Install it "
            "with `pip install 'phalanx[reports]'`, or leave --report away"
        ) from error
    figures: list[tuple[str, str, Callable[[Sequence[Simulation]], Figure | None]]] = [
        ("GPUs held over time", "Of the GPUs of nodes without a fault (grey).", charts.utilisation),
        ("Who waits", "GPUs that waiting gangs ask for, over time.", charts.waiting),
        ("Completion times by width", "Share of the jobs that took at most so long, submission to end.", charts.jct),
        ("Waits by queue", "Median, and whiskers to the 99th percentile, of all that a job waited.", charts.waits),
        ("Nodes", "Each bar is one attempt on a node; hatched ones were lost to a fault.", charts.nodes),
    ]
    parts = [f"<h1>Simulation of {escape(trace)}</h1>", _table(simulations)]
    for title, caption, draw in figures:
        figure = draw(simulations)
        if figure is not None:
            picture = _svg(figure)
            parts.append(f"<h2>{title}</h2><figure>{picture}<figcaption>{caption}</figcaption></figure>")
    parts += [_parts(simulation, _which(number, simulations)) for number, simulation in enumerate(simulations)]
    body = "\n".join(parts)
    path.write_text(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Simulation of {escape(trace)}</title>'
        f"<style>{_STYLE}</style>\n<body>\n{body}\n</body></html>\n",
        encoding="utf-8",
    )


def _which(number: int, simulations: Sequence[Simulation]) -> str:
    return "" if len(simulations) == 1 else (" as it is", " as it might be")[number]


def _table(simulations: Sequence[Simulation]) -> str:
    rows = [rows_of(simulation.numbers) for simulation in simulations]
    head = "<tr><th></th><th>as it is</th><th>as it might be</th></tr>" if len(simulations) > 1 else ""
    lines = []
    for cells in zip(*rows, strict=True):
        values = "".join(f"<td>{escape(value)}</td>" for _, value in cells)
        lines.append(f"<tr><th>{escape(cells[0][0])}</th>{values}</tr>")
    return f"<table>{head}{''.join(lines)}</table>"


def _parts(simulation: Simulation, which: str) -> str:
    found = []
    for title, key in (("width (GPUs)", "by_width"), ("queue", "by_queue")):
        head = "".join(f"<th>{escape(label)}</th>" for label in ("", "jobs", *(label for label, _ in HEADLINES)))
        lines = []
        for name, part in simulation.numbers[key].items():
            values = [part["jobs"], *(part[column] for _, column in HEADLINES)]
            cells = "".join(f'<td class="number">{value:,.0f}</td>' for value in values)
            lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
        found.append(f"<h2>By {title}{which}, seconds</h2><table><tr>{head}</tr>{''.join(lines)}</table>")
    left_out = simulation.numbers["left_out"]
    if left_out:
        lines = [f"<li>{escape(job['job_id'])}: {escape(job['reason'])}</li>" for job in left_out[:50]]
        found.append(f"<h2>Left out{which}: {len(left_out)} jobs that can never fit</h2><ul>{''.join(lines)}</ul>")
    return "".join(found)


def _svg(figure: Figure) -> str:
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
