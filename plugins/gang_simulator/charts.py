"""The plots of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gang_simulator.measures import grouped, jct_s, percentile, queue_s
from gang_simulator.occupancy import Moment
from gang_simulator.sim_gang import SimGang
from gang_simulator.simulation import Simulation

COLOURS = ("#2563a8", "#d1742b")  # as it is, as it might be
_SHADES = ("#2563a8", "#d1742b", "#3d8f5f", "#8a4fa3", "#b33f48", "#5a6875", "#a98b1f", "#2f8f9d")
MOST_POINTS = 2_000  # of a line over time; a page can't show more
MOST_NODES, MOST_BARS = 32, 3_000  # of the picture of nodes; a larger run is no picture any more
MOST_LINES = 8
DAY_S = 86_400.0


def utilisation(simulations: Sequence[Simulation]) -> Figure:
    """GPUs held over time."""
    figure, axes = _new(len(simulations))
    for axis, simulation, colour, which in zip(axes, simulations, COLOURS, _names(simulations), strict=False):
        days, held = _over_time(simulation, lambda moment: moment.held_gpus)
        _, usable = _over_time(simulation, lambda moment: moment.usable_gpus)
        axis.fill_between(days, usable, step="post", color="#e3e8ed")
        axis.fill_between(days, held, step="post", color=colour)
        axis.set(ylabel=f"GPUs{which}", ylim=(0, None), xlim=(days[0], days[-1]) if len(days) > 1 else None)
    axes[-1].set_xlabel("days")
    return figure


def waiting(simulations: Sequence[Simulation]) -> Figure:
    """GPUs asked for by gangs that wait, over time."""
    figure, (axis,) = _new(1)
    for simulation, colour, which in zip(simulations, COLOURS, _names(simulations), strict=False):
        days, asked = _over_time(simulation, lambda moment: moment.waiting_gpus)
        axis.step(days, asked, where="post", color=colour, label=which or "GPUs waited for", linewidth=1)
    axis.set(xlabel="days", ylabel="GPUs waited for", ylim=(0, None))
    if len(simulations) > 1:
        axis.legend(frameon=False)
    return figure


def jct(simulations: Sequence[Simulation]) -> Figure:
    """Distribution of completion times, a line for each of the most frequent widths."""
    figure, axes = _new(len(simulations), wide=False)
    for axis, simulation, which in zip(axes, simulations, _names(simulations), strict=True):
        groups = grouped(_ended(simulation), lambda gang: str(gang.job.gpus))
        often = sorted(groups, key=lambda width: -len(groups[width]))[:MOST_LINES]
        for width, shade in zip(sorted(often, key=int), _SHADES, strict=False):
            times = sorted(jct_s(gang) for gang in groups[width])
            picked = [position / min(len(times), 400) for position in range(1, min(len(times), 400) + 1)]
            hours = [max(percentile(times, share), 1.0) / 3600 for share in picked]
            axis.plot(hours, picked, color=shade, label=f"{width} GPU{'' if width == '1' else 's'}", linewidth=1.2)
        axis.set(xscale="log", xlabel=f"hours{which}", ylabel="share of jobs", ylim=(0, 1.02))
        axis.legend(frameon=False)
    return figure


def waits(simulations: Sequence[Simulation]) -> Figure:
    """Waits of each queue."""
    names = list(dict.fromkeys(name for simulation in simulations for name in simulation.numbers["by_queue"]))[:20]
    figure, (axis,) = _new(1, inches=1.2 + 0.45 * len(names))
    height = 0.8 / len(simulations)
    for number, (simulation, colour) in enumerate(zip(simulations, COLOURS, strict=False)):
        groups = grouped(_ended(simulation), lambda gang: gang.job.vc or gang.request.gang_queue)
        for row, name in enumerate(names):
            hours = sorted(queue_s(gang) / 3600 for gang in groups.get(name, ()))
            middle, far = percentile(hours, 0.5), percentile(hours, 0.99)
            place = row - 0.4 + height * (number + 0.5)
            axis.barh(place, middle, height * 0.9, color=colour)
            axis.plot([middle, far], [place, place], color="#1c2733", linewidth=1, marker="|")
    axis.set(xlabel="hours", yticks=range(len(names)), yticklabels=names, xlim=(0, None))
    axis.invert_yaxis()
    if len(simulations) > 1:
        labels = _names(simulations)
        handles = [Patch(color=colour, label=name) for colour, name in zip(COLOURS, labels, strict=False)]
        axis.legend(handles=handles, frameon=False)
    return figure


def nodes(simulations: Sequence[Simulation]) -> Figure | None:
    """What ran where, of small runs."""
    small = [
        simulation
        for simulation in simulations
        if len(simulation.cluster.nodes) <= MOST_NODES
        and sum(len(each.nodes) for gang in simulation.replayed.gangs for each in gang.stretches) <= MOST_BARS
    ]
    if len(small) < len(simulations):
        return None
    rows = max(len(simulation.cluster.nodes) for simulation in simulations)
    figure, axes = _new(len(simulations), inches=1.0 + 0.28 * rows)
    for axis, simulation, which in zip(axes, simulations, _names(simulations), strict=True):
        _draw_nodes(axis, simulation)
        axis.set_xlabel(f"days{which}")
    return figure


def _draw_nodes(axis: Axes, simulation: Simulation) -> None:
    names = [node.node for node in simulation.cluster.nodes]
    rows = {name: row for row, name in enumerate(names)}
    capacity = {node.node: node.capacity.gpus for node in simulation.cluster.nodes}
    zero_s = simulation.settings.starts_at.timestamp()
    for number, gang in enumerate(simulation.replayed.gangs):
        for stretch in gang.stretches:
            share = gang.job.gpus / sum(capacity[name] for name in stretch.nodes)
            for name in stretch.nodes:
                axis.barh(
                    rows[name],
                    (stretch.ended_s - stretch.began_s) / DAY_S,
                    0.25 + 0.6 * min(1.0, share),
                    (stretch.began_s - zero_s) / DAY_S,
                    color=_SHADES[number % len(_SHADES)],
                    alpha=0.65,
                    hatch="///" if stretch.how == "lost" else None,
                )
    axis.set(yticks=range(len(names)), yticklabels=names)
    axis.invert_yaxis()


def _new(rows: int, *, inches: float = 2.6, wide: bool = True) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(10.0 if wide else 8.0, inches * rows), layout="constrained")
    axes = [figure.add_subplot(rows, 1, number + 1) for number in range(rows)]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _names(simulations: Sequence[Simulation]) -> tuple[str, ...]:
    return ("",) if len(simulations) == 1 else (" as it is", " as it might be")


def _ended(simulation: Simulation) -> list[SimGang]:
    return [gang for gang in simulation.replayed.gangs if gang.ended_s is not None]


def _over_time(simulation: Simulation, value_of: Callable[[Moment], int]) -> tuple[list[float], list[float]]:
    """The value by the day; of a long run the mean over equal stretches, so that nothing is left to chance."""
    moments = simulation.replayed.moments
    if len(moments) <= MOST_POINTS:
        return [moment.at_s / DAY_S for moment in moments], [float(value_of(moment)) for moment in moments]
    first_s, last_s = moments[0].at_s, moments[-1].at_s
    width_s = (last_s - first_s) / MOST_POINTS
    sums = [0.0] * MOST_POINTS
    for moment, following in pairwise(moments):
        from_s = moment.at_s
        while from_s < following.at_s:
            bin_number = min(int((from_s - first_s) / width_s), MOST_POINTS - 1)
            until_s = min(following.at_s, first_s + (bin_number + 1) * width_s)
            if until_s <= from_s:
                until_s = following.at_s
            sums[bin_number] += value_of(moment) * (until_s - from_s)
            from_s = until_s
    days = [(first_s + width_s * number) / DAY_S for number in range(MOST_POINTS)]
    return days, [total / width_s for total in sums]
