"""The four pictures of a report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from trl_mle.instrumentation import MILESTONES
from trl_mle.report.training_run import TrainingRun, best_so_far
from trl_mle.showing import for_terminal, metric_name


POINTS = 20  # maximum number of points of a curve over the programs
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a name may hold dollars
    "svg.hashsalt": "trl_mle",  # the same plot gives the same file
}
LEARNING = {"reward": {"reward": "-"}, "valid": {"mle/valid_rate": "-"}}
DURATIONS = {
    "Δt (s)": {"mle/duration_s/p50": "-", "mle/duration_s/p10": ":", "mle/duration_s/p90": ":"},
    "weight": {"mle/duration_weight/mean": "-", "mle/duration_weight/min": ":", "mle/duration_weight/max": ":"},
}


@dataclass(frozen=True)
class Chart:
    """A plot: its file name without extension, what it shows, how to read it, and the picture."""

    name: str
    title: str
    caption: str
    figure: Figure


def charts(run: TrainingRun) -> Iterator[Chart]:
    """Draws all plots that the run has data for."""
    if figure := _logged(run, LEARNING):
        caption = "Mean reward of the completions of a step, and their share with a valid submission."
        yield Chart("learning", "Reward and valid submissions", caption, figure)
    if not run.programs().empty:
        if run.best:
            caption = "Solid: best so far, dashed: mean of valid programs; on held-out rows, if there are any."
            yield Chart("score", "Score by programs", caption, _scores(run))
        yield Chart("milestones", "Milestones", "Share of the programs that reached each milestone.", _milestones(run))
    if figure := _logged(run, DURATIONS):
        caption = (
            "Above: how long programs ran, median (solid), 10th and 90th percentile (dotted). Below: their duration "
            "weights, mean (solid), smallest and largest (dotted)."
        )
        yield Chart("durations", "Δt and duration weights", caption, figure)


def _figure(rows: int, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure narrow enough for a phone."""
    figure = Figure(figsize=(4.4, 1.1 + 1.8 * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, sharex=columns > 1, squeeze=False).flat)


def _draw(axis: Axes, curve: pd.Series, style: str = "-") -> None:
    axis.plot(curve.index, curve, style, color="#0072B2", marker="o" if len(curve) < 3 else "", markersize=3)


def _logged(run: TrainingRun, rows: Mapping[str, Mapping[str, str]]) -> Figure | None:
    """Logged metrics over the steps: a row has a label, and a line style for each of its metrics."""
    rows = {label: styles for label, styles in rows.items() if any(map(run.metric, styles))}
    if not rows:
        return None
    figure, axes = _figure(len(rows))
    for axis, (label, styles) in zip(axes, rows.items(), strict=True):
        axis.set_ylabel(label)
        for key, style in styles.items():
            _draw(axis, pd.Series(run.metric(key), dtype=float), style)
    axes[-1].set_xlabel("training step")
    return figure


def _scores(run: TrainingRun) -> Figure:
    figure, axes = _figure(len(run.best))
    for axis, best in zip(axes, run.best, strict=True):
        axis.set_title(for_terminal(best["competition"]))
        axis.set_ylabel(metric_name(best["metric"], best["higher_is_better"]))
        table = run.programs(best["competition"])
        _draw(axis, best_so_far(table["score"], best["higher_is_better"], table["reported"]))
        _draw(axis, _binned(table, "reported"), "--")
        scores = [score for line in axis.lines for score in np.asarray(line.get_ydata()) if score == score]
        if scores and min(scores) > 0 and max(scores) > 10 * min(scores):  # outliers would flatten the rest
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[-1].set_xlabel("programs")
    return figure


def _milestones(run: TrainingRun) -> Figure:
    figure, axes = _figure(-(-len(MILESTONES) // 2), columns=2)
    for axis, milestone in zip(axes, MILESTONES, strict=False):
        axis.set_title(milestone.replace("_", " "))
        axis.set_ylim(0, 1)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0))
        _draw(axis, _binned(run.programs(), milestone))
    for axis in axes[len(MILESTONES) :]:
        axis.remove()
    axes[len(MILESTONES) - 1].set_xlabel("programs")
    return figure


def _binned(table: pd.DataFrame, column: str) -> pd.Series:
    """Means over consecutive programs, by the number of the last of them."""
    width = -(-len(table) // POINTS)
    means = table[column].groupby(np.arange(len(table)) // width).mean()
    return means.set_axis((means.index + 1) * width)
