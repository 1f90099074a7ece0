"""The four pictures of a report, for one run or several overlaid runs."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter

from trl_mle.instrumentation import MILESTONES
from trl_mle.report.training_run import TrainingRun, best_so_far
from trl_mle.showing import for_terminal, metric_name


# Okabe and Ito's palette, which colour-blind people can distinguish
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
POINTS = 20  # maximum number of points of a curve over the programs
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
LEARNING = {"reward": {"reward": "-"}, "valid": {"mle/valid_rate": "-"}}
DURATIONS = {
    "Δt (s)": {"mle/duration_s/p50": "-", "mle/duration_s/p10": ":", "mle/duration_s/p90": ":"},
    "weight": {"mle/duration_weight/mean": "-", "mle/duration_weight/min": ":", "mle/duration_weight/max": ":"},
}

Groups = Mapping[str, Sequence[TrainingRun]]


@dataclass(frozen=True)
class Chart:
    """A plot: its file name without extension, what it shows, how to read it, and the picture."""

    name: str
    title: str
    caption: str
    figure: Figure


def charts(groups: Groups) -> Iterator[Chart]:
    """Draws all plots that the runs have data for."""
    for name, title, caption, figure in (
        ("learning", "Reward and valid submissions", "Mean reward of the completions of a step, and their share with a valid submission.", _logged(groups, LEARNING)),
        ("score", "Score by programs", "Solid: best so far, dashed: mean of valid programs. With held-out rows, scores are on these, and the best is chosen on the others.", _scores(groups)),
        ("milestones", "Milestones", "Share of the programs that reached each milestone.", _milestones(groups)),
        ("durations", "Δt and duration weights", "Above: how long programs ran, median (solid), 10th and 90th percentile (dotted). Below: the duration weight of their advantages, mean (solid), smallest and largest (dotted).", _logged(groups, DURATIONS)),
    ):  # fmt: skip
        if figure is not None:
            several = any(len(runs) > 1 for runs in groups.values())
            band = " Line: mean over runs, band: ± 1 standard deviation." if several else ""
            yield Chart(name, title, caption + band, figure)


def _figure(groups: Groups, rows: int, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Makes a figure narrow enough for a phone, so that its text stays legible there, with the runs' names below it."""
    figure = Figure(figsize=(4.4, 1.1 + 1.8 * rows), layout="constrained")
    if len(groups) > 1:
        handles = [
            Line2D([], [], color=color, label=textwrap.fill(for_terminal(name), 44))
            for name, color in _colors(groups).items()
        ]
        figure.legend(handles=handles, loc="outside lower center")
    return figure, list(figure.subplots(rows, columns, sharex=columns > 1, squeeze=False).flat)


def _colors(groups: Groups) -> dict[str, str]:
    return {name: COLORS[i % len(COLORS)] for i, name in enumerate(groups)}


def _draw(axis: Axes, curves: Sequence[pd.Series], color: str, style: str = "-") -> None:
    """Draws the mean of curves, whose index is x, with a band if there are several."""
    table = pd.concat(curves, axis=1).astype(float).sort_index() if curves else pd.DataFrame()
    if table.empty:
        return
    mean, deviation = table.mean(axis=1), table.std(axis=1)
    axis.plot(mean.index, mean, style, color=color, marker="o" if len(mean) < 3 else "", markersize=3)
    if len(curves) > 1:
        axis.fill_between(mean.index, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)


def _logged(groups: Groups, rows: Mapping[str, Mapping[str, str]]) -> Figure | None:
    """Logged metrics over the steps: a row has a label, and a line style for each of its metrics."""
    logged = {name for runs in groups.values() for run in runs for entry in run.history for name in entry}
    rows = {label: styles for label, styles in rows.items() if styles.keys() & logged}
    if not rows:
        return None
    figure, axes = _figure(groups, len(rows))
    for axis, (label, styles) in zip(axes, rows.items(), strict=True):
        axis.set_ylabel(label)
        for name, color in _colors(groups).items():
            for key, style in styles.items():
                _draw(axis, [pd.Series(run.metric(key), dtype=float) for run in groups[name]], color, style)
    axes[-1].set_xlabel("training step")
    return figure


def _scores(groups: Groups) -> Figure | None:
    best = {one["competition"]: one for runs in groups.values() for run in runs for one in run.best}
    if not best or not _has_programs(groups):
        return None
    figure, axes = _figure(groups, len(best))
    for axis, (competition, one) in zip(axes, best.items(), strict=True):
        axis.set_title(for_terminal(competition))
        axis.set_ylabel(metric_name(one["metric"], one["higher_is_better"]))
        for name, color in _colors(groups).items():
            tables = [run.programs(competition) for run in groups[name]]
            so_far = [
                best_so_far(table["score"], one["higher_is_better"], table["reported"])
                for table in tables
                if not table.empty and table["valid"].any()
            ]
            if so_far:
                # If runs joined or left the mean midway, it could get worse: ended runs keep their best, and the curve
                # starts where all runs have one
                joined = pd.concat(so_far, axis=1).ffill().dropna()
                _draw(axis, [joined[column] for column in joined], color)
            _draw(axis, [_binned(table, "reported") for table in tables if not table.empty], color, "--")
        scores = [score for line in axis.lines for score in np.asarray(line.get_ydata()) if score == score]
        if scores and min(scores) > 0 and max(scores) > 10 * min(scores):  # outliers would flatten the rest
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[-1].set_xlabel("programs")
    return figure


def _milestones(groups: Groups) -> Figure | None:
    if not _has_programs(groups):
        return None
    figure, axes = _figure(groups, -(-len(MILESTONES) // 2), columns=2)
    for axis, milestone in zip(axes, MILESTONES, strict=False):
        axis.set_title(milestone.replace("_", " "))
        axis.set_ylim(0, 1)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0))
        for name, color in _colors(groups).items():
            tables = [run.programs() for run in groups[name]]
            _draw(axis, [_binned(table, milestone) for table in tables if not table.empty], color)
    for axis in axes[len(MILESTONES) :]:
        axis.remove()
    axes[len(MILESTONES) - 1].set_xlabel("programs")
    return figure


def _binned(table: pd.DataFrame, column: str) -> pd.Series:
    """Means over consecutive programs, by the number of the last of them."""
    width = -(-len(table) // POINTS)
    means = table[column].groupby(np.arange(len(table)) // width).mean()
    return means.set_axis((means.index + 1) * width)


def _has_programs(groups: Groups) -> bool:
    return any(not run.programs().empty for runs in groups.values() for run in runs)
