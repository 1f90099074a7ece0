"""Drawing helpers for the plots of a report: sizes, colours, curves with bands, axes."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from trl_mle.report.training_run import TrainingRun
from trl_mle.showing import for_terminal


# Okabe and Ito's palette, which colour-blind people can distinguish
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BINS = 20  # maximum number of points of a curve over the programs
LEAST_PROGRAMS = 16  # minimum number of programs per point, unless there are few
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "text.parse_math": False,  # a name may hold dollars
    "svg.hashsalt": "trl_mle",  # the same plot gives the same file
}

Groups = Mapping[str, Sequence[TrainingRun]]


def new_figure(groups: Groups, rows: int = 1, height: float = 2.9, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Makes a figure narrow enough for a phone, so that its text stays legible there."""
    if len(groups) > 1:  # room for the legend
        height += 0.2 * sum(text.count("\n") + 1 for text in map(wrap, groups)) / _legend_columns(groups)
    figure = Figure(figsize=(4.4, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False)
    return figure, list(axes.flat)


def colors_of(groups: Groups) -> dict[str, str]:
    return {name: COLORS[i % len(COLORS)] for i, name in enumerate(groups)}


def draw_curve(
    axis: Axes, xs: Sequence[float], curves: Sequence[Sequence[float] | np.ndarray], color: str, **style: Any
) -> None:
    """Draws the mean of curves, which may have gaps, with a band."""
    values = np.asarray(curves, dtype=float)
    known = ~np.isnan(values).all(axis=0)
    if not known.any():
        return
    x, values = np.asarray(xs)[known], values[:, known]
    mean = np.nanmean(values, axis=0)
    axis.plot(x, mean, color=color, marker="o" if len(x) < 3 else "", markersize=3, **style)
    if len(values) > 1:
        deviation = pd.DataFrame(values).std().to_numpy()  # of two at least; NaN, and no band, where one is known
        axis.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)


def by_step(runs: Sequence[TrainingRun], key: str) -> tuple[list[int], list[list[float]]]:
    """A logged metric, at all steps where any run has it."""
    found = [run.metric(key) for run in runs]
    steps = sorted({step for metric in found for step in metric})
    return steps, [[metric.get(step, np.nan) for step in steps] for metric in found]


def by_programs(
    runs: Sequence[TrainingRun], width: int, value: Callable[[pd.DataFrame], float]
) -> tuple[list[float], list[list[float]]]:
    """A value for each `width` consecutive programs, at their middle; a short remainder joins the last group."""
    curves = []
    for run in runs:
        table = run.programs()
        starts = list(range(0, len(table), width))
        if len(starts) > 1 and len(table) - starts[-1] < width / 2:
            starts.pop()
        curves.append([value(table[start:end]) for start, end in pairwise([*starts, len(table)])])
    longest = max(map(len, curves))
    xs = [(i + 0.5) * width for i in range(longest)]
    return xs, [curve + [np.nan] * (longest - len(curve)) for curve in curves]


def programs_per_point(groups: Groups, competition: str | None = None) -> int:
    """Number of programs per point of a curve."""
    longest = max(len(run.programs(competition)) for runs in groups.values() for run in runs)
    return max(-(-longest // BINS), min(LEAST_PROGRAMS, longest // 4), 1)


def has_programs(groups: Groups) -> bool:
    return any(not run.programs().empty for runs in groups.values() for run in runs)


def add_legend(figure: Figure, groups: Groups) -> None:
    """Adds the names of runs with a curve, below the plot where they cover nothing."""
    if len(groups) > 1:
        drawn = {line.get_color() for axis in figure.axes for line in axis.lines}
        colors = colors_of(groups).items()
        handles = [Line2D([], [], color=color, label=wrap(name)) for name, color in colors if color in drawn]
        figure.legend(handles=handles, loc="outside lower center", ncols=_legend_columns(groups))


def wrap(name: str) -> str:
    """A run's name in lines that fit the width of a figure."""
    return textwrap.fill(for_terminal(name), 44)


def _legend_columns(groups: Groups) -> int:
    return 2 if max(map(len, groups)) <= 24 else 1


def label_steps(axis: Axes) -> None:
    axis.set_xlabel("training step")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def label_share(axis: Axes, label: str) -> None:
    axis.set_ylabel(label)
    axis.set_ylim(0, 1)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0))


def label_score(axis: Axes, groups: Groups, competition: str | None = None) -> None:
    """Labels a score axis by its metric; logarithmic if scores are far apart, because outliers would flatten the rest."""
    tables = [table for runs in groups.values() for run in runs if not (table := run.programs(competition)).empty]
    scores = [score for table in tables for score in table["score"].dropna()]
    if scores and min(scores) > 0 and max(scores) > 10 * min(scores):
        set_log_scale(axis)
    found = [best for runs in groups.values() for run in runs for best in run.best]
    labels = {
        f"{best['metric'].replace('_', ' ')}\n{'higher' if best['higher_is_better'] else 'lower'} is better"
        for best in found
        if competition in (None, best["competition"])
    }
    axis.set_ylabel(labels.pop() if len(labels) == 1 else "score")


def set_log_scale(axis: Axes) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))


def is_logged(groups: Groups, key: str) -> bool:
    return any(run.metric(key) for runs in groups.values() for run in runs)
