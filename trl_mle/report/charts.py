"""The pictures of a report: one question each, for one run or for several laid over each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from trl_mle.instrumentation import MILESTONES
from trl_mle.report.training_run import TrainingRun, best_so_far


# Those of Okabe and Ito, which colour-blind people tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
OUTCOMES = {
    "valid": "#009E73",
    "no valid submission": "#F0E442",
    "error": "#D55E00",
    "timeout": "#CC79A7",
    "out_of_memory": "#0072B2",
    "output_limit": "#56B4E9",
    "killed": "#000000",
}
BINS = 20  # of a curve over executed programs, at most
LEAST_PROGRAMS = 16  # of a point of such a curve, unless there are few
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "trl_mle",  # the same picture, the same file
}

Groups = Mapping[str, Sequence[TrainingRun]]


@dataclass(frozen=True)
class Chart:
    """
    A picture.

    Args:
        name (`str`):
            File name, without its ending.
        title (`str`):
            What it shows.
        caption (`str`):
            How to read it.
        figure ([`~matplotlib.figure.Figure`]):
            The picture, with units.
    """

    name: str
    title: str
    caption: str
    figure: Figure


def charts(groups: Groups) -> Iterator[Chart]:
    """
    Draws what the runs have data for.

    Args:
        groups (`dict[str, list[TrainingRun]]`):
            Runs by their names; those of one name are shown as mean and band.
    """
    several = any(len(runs) > 1 for runs in groups.values())
    mean, band = (" Mean over runs.", " Line: mean over runs, band: ± 1 standard deviation.") if several else ("", "")
    for name, title, caption, draw in (
        ("reward", "Reward", "Mean reward of the completions of a step.", _reward),
        ("valid_rate", "Valid submissions", "Share of programs with a valid submission. Dotted: of programs that were never seen to train a model, which may game the metric.", _valid_rate),
    ):  # fmt: skip
        if (figure := draw(groups)) is not None:
            yield Chart(name, title, caption + band, figure)
    joined = " The best so far starts when each run with a valid program has one." if several else ""
    where, best = "", "best so far"
    if any(run.holds_out for runs in groups.values() for run in runs):
        where, best = "held-out rows of the ", "that of the best so far on the other rows"
    for competition, higher_is_better in _competitions(groups).items():
        slug = "".join(letter if letter.isalnum() else "-" for letter in competition)
        arrow = "higher is better" if higher_is_better else "lower is better"
        for name, title, caption, column in (
            ("score_by_programs", "Score by executed programs", "", None),
            ("score_by_time", "Score by wall clock", " Pauses between an interruption and its resumption count.", "seconds"),
        ):  # fmt: skip
            figure = _score(groups, competition, higher_is_better, column)
            text = f"Score on the {where}hidden answers ({arrow}). Solid: {best}, dashed: mean of the valid ones.{caption}"
            yield Chart(f"{name}-{slug}", f"{title}: {competition}", text + band + joined, figure)
    below = " Below: mean score of the valid ones." if _logged(groups, "mle/improve/score/mean") else ""
    over_time, panels = (band, " Each panel has a scale of its own.") if len(groups) > 1 else (mean, "")
    for name, title, caption, draw in (
        ("milestones", "Milestones", "Share of the executed programs that reached each milestone." + band, _milestones),
        ("durations", "Δt and the weights it got", "Above: how long programs ran, median (solid), 10th and 90th percentile (dotted). Below: the duration weight of their advantages, mean (solid), smallest and largest (dotted)." + mean, _durations),
        ("outcomes", "Outcomes", "How executions ended. Completions without a program are not executed and not shown." + panels + over_time, _outcomes),
        ("prompts", "From scratch or improving", "Solid: from scratch. Dashed: improving. Dotted: how often an improved program beat the one it was shown; dash-dotted: how often one from scratch would have." + below + band, _prompts),
        ("best_of_n", "Evaluation during training", "The best of N fresh programs on fixed prompts." + band, _evaluations),
    ):  # fmt: skip
        if (figure := draw(groups)) is not None:
            yield Chart(name, title, caption, figure)


def _competitions(groups: Groups) -> dict[str, bool]:
    return {name: higher for runs in groups.values() for run in runs for name, higher in run.directions.items()}


def _new(groups: Groups, rows: int = 1, height: float = 2.9, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Of a width that a phone shows whole, so that its texts stay legible there."""
    height += 0.2 * ((len(groups) + 1) // 2) if len(groups) > 1 else 0  # of the legend
    figure = Figure(figsize=(4.4, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False)
    return figure, list(axes.flat)


def _colors(groups: Groups) -> dict[str, str]:
    return {name: COLORS[i % len(COLORS)] for i, name in enumerate(groups)}


def _draw(axis: Axes, xs: Sequence[float], curves: Sequence[Sequence[float] | np.ndarray], color: str, label: str | None = None, **style: Any) -> None:  # fmt: skip
    """The mean of curves, which may have gaps, and their band."""
    values = np.asarray(curves, dtype=float)
    known = ~np.isnan(values).all(axis=0)
    if not known.any():
        return
    x, values = np.asarray(xs)[known], values[:, known]
    mean = np.nanmean(values, axis=0)
    axis.plot(x, mean, color=color, label=label, marker="o" if len(x) < 3 else "", markersize=3, **style)
    if len(values) > 1:
        deviation = np.nanstd(values, axis=0)
        axis.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)


def _by_step(runs: Sequence[TrainingRun], key: str) -> tuple[list[int], list[list[float]]]:
    """A metric of the log at all steps at which any run has it."""
    found = [run.metric(key) for run in runs]
    steps = sorted({step for metric in found for step in metric})
    return steps, [[metric.get(step, np.nan) for step in steps] for metric in found]


def _by_programs(
    runs: Sequence[TrainingRun], width: int, value: Callable[[pd.DataFrame], float], competition: str | None = None
) -> tuple[list[float], list[list[float]]]:
    """A value of each so many programs in turn, at their middle; the last ones join those before if they are few."""
    curves = []
    for run in runs:
        table = run.programs(competition)
        starts = list(range(0, len(table), width))
        if len(starts) > 1 and len(table) - starts[-1] < width / 2:
            starts.pop()
        curves.append([value(table[start:end]) for start, end in zip(starts, [*starts[1:], len(table)], strict=True)])
    longest = max(map(len, curves))
    xs = [(i + 0.5) * width for i in range(longest)]
    return xs, [curve + [np.nan] * (longest - len(curve)) for curve in curves]


def _width(groups: Groups, competition: str | None = None) -> int:
    """Programs of one point of a curve."""
    longest = max(len(run.programs(competition)) for runs in groups.values() for run in runs)
    return max(-(-longest // BINS), min(LEAST_PROGRAMS, longest // 4), 1)


def _panels(groups: Groups, shares: Mapping[str, Callable[[pd.DataFrame], float]]) -> tuple[Figure, list[Axes]]:
    """Shares of the programs over executed programs, each in a panel, with a curve for each name."""
    rows = -(-len(shares) // 2)
    figure, axes = _new(groups, rows, height=0.4 + 1.15 * rows, columns=2)
    for unused in axes[len(shares) :]:
        unused.remove()
    axes, width = axes[: len(shares)], _width(groups)
    for axis, (title, share) in zip(axes, shares.items(), strict=True):
        for name, color in _colors(groups).items():
            _draw(axis, *_by_programs(groups[name], width, share), color, linewidth=1.1)
        axis.set_title(title)
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0))
    for axis in axes[-2:]:  # the lowest of each column
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("executed programs")
    _legend(figure, groups)
    return figure, axes


def _has_programs(groups: Groups) -> bool:
    return any(not run.programs().empty for runs in groups.values() for run in runs)


def _legend(figure: Figure, groups: Groups) -> None:
    """The names of the runs that have a curve, below the picture, where they cover nothing."""
    if len(groups) > 1:
        drawn = {line.get_color() for axis in figure.axes for line in axis.lines}
        colors = _colors(groups).items()
        handles = [Line2D([], [], color=color, label=name) for name, color in colors if color in drawn]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _steps(axis: Axes) -> None:
    axis.set_xlabel("training step")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _share(axis: Axes, label: str) -> None:
    axis.set_ylabel(label)
    axis.set_ylim(0, 1)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0))


def _score_scale(axis: Axes, groups: Groups, competition: str | None = None) -> None:
    """Logarithmic where programs' scores are far apart, or outliers would flatten the rest; named by their one metric."""
    tables = [table for runs in groups.values() for run in runs if not (table := run.programs(competition)).empty]
    scores = [score for table in tables for score in table["score"].dropna()]
    if scores and min(scores) > 0 and max(scores) > 10 * min(scores):
        _log_scale(axis)
    found = [best for runs in groups.values() for run in runs for best in run.best]
    labels = {
        f"{best['metric'].replace('_', ' ')}\n{'higher' if best['higher_is_better'] else 'lower'} is better"
        for best in found
        if competition in (None, best["competition"])
    }
    axis.set_ylabel(labels.pop() if len(labels) == 1 else "score")


def _log_scale(axis: Axes) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))


def _logged(groups: Groups, key: str) -> bool:
    return any(run.metric(key) for runs in groups.values() for run in runs)


def _reward(groups: Groups) -> Figure | None:
    figure, [axis] = _new(groups)
    axis.set_ylabel("reward")
    if _logged(groups, "reward"):
        for name, color in _colors(groups).items():
            _draw(axis, *_by_step(groups[name], "reward"), color)
        _steps(axis)
    elif _has_programs(groups):  # before the first checkpoint
        width = _width(groups)
        for name, color in _colors(groups).items():
            _draw(axis, *_by_programs(groups[name], width, lambda table: float(table["reward"].mean())), color)
        axis.set_xlabel("executed programs")
    else:
        return None
    _legend(figure, groups)
    return figure


def _valid_rate(groups: Groups) -> Figure | None:
    if not _has_programs(groups):
        if not _logged(groups, "mle/valid_rate"):
            return None
        figure, [axis] = _new(groups)
        for name, color in _colors(groups).items():
            _draw(axis, *_by_step(groups[name], "mle/valid_rate"), color)
        _steps(axis)
    else:
        figure, [axis] = _new(groups)
        width = _width(groups)
        for name, color in _colors(groups).items():
            _draw(axis, *_by_programs(groups[name], width, lambda table: float(table["valid"].mean())), color)
            untrained = _by_programs(groups[name], width, lambda table: float(table["untrained"].mean()))
            _draw(axis, *untrained, color, linestyle=":")
        axis.set_xlabel("executed programs")
    _share(axis, "share of programs")
    _legend(figure, groups)
    return figure


def _score(groups: Groups, competition: str, higher_is_better: bool, column: str | None) -> Figure:
    figure, [axis] = _new(groups)
    width = _width(groups, competition)
    unit, size = "executed programs", 1
    if column is not None:
        tables = [run.programs(competition) for runs in groups.values() for run in runs]
        unit, size = _unit(max((table[column].max() for table in tables if not table.empty), default=0.0))
    for name, color in _colors(groups).items():
        tables = [table for run in groups[name] if not (table := run.programs(competition)).empty]
        if not tables:
            continue
        ends = [float(table[column].iloc[-1]) if column else float(len(table)) for table in tables]
        grid = np.linspace(0, max(ends), 200)
        best = []
        for table in tables:
            x = table[column].to_numpy() if column else np.arange(1, len(table) + 1)
            so_far = best_so_far(table["score"].to_numpy(), higher_is_better, table["reported"].to_numpy())
            places = np.searchsorted(x, grid, side="right") - 1
            best.append(np.where(places >= 0, so_far[places], np.nan))
        found = np.array([curve for curve in best if not np.isnan(curve[-1])])
        if len(found):
            # A mean that runs join or leave on the way could get worse: it starts when all have one, and an ended one keeps its
            found[:, np.isnan(found).any(axis=0)] = np.nan
            _draw(axis, list(grid / size), list(found), color)
        if column is None:
            xs, curves = _by_programs(groups[name], width, lambda table: float(table["reported"].mean()), competition)
            _draw(axis, xs, curves, color, linestyle="--")
        else:
            edges = np.linspace(0, max(ends), BINS + 1)
            curves = [
                [float(table["reported"][(table[column] >= low) & (table[column] < high)].mean()) for low, high in pairwise(edges)]
                for table in tables
            ]  # fmt: skip
            _draw(axis, list((edges[1:] + edges[:-1]) / 2 / size), curves, color, linestyle="--")
    _score_scale(axis, groups, competition)
    axis.set_xlabel(unit if column is None else f"wall clock ({unit})")
    _legend(figure, groups)
    return figure


def _unit(seconds: float) -> tuple[str, int]:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return unit, size
    return "s", 1


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    unit, size = _unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def _milestones(groups: Groups) -> Figure | None:
    if not _has_programs(groups):
        return None
    shares: dict[str, Callable[[pd.DataFrame], float]] = {
        milestone.replace("_", " "): lambda table, key=milestone: float(table[key].mean())  # type: ignore[misc]
        for milestone in MILESTONES
    }
    if len(groups) > 1:
        figure, axes = _panels(groups, shares)
        for axis in axes:
            axis.set_ylim(0, 1)
        return figure
    figure, [axis] = _new(groups, height=3.3)
    [runs] = groups.values()
    width = _width(groups)
    for i, (name, share) in enumerate(shares.items()):
        _draw(axis, *_by_programs(runs, width, share), f"C{i}", name)
    axis.set_xlabel("executed programs")
    _share(axis, "share of programs")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _durations(groups: Groups) -> Figure | None:
    if not _logged(groups, "mle/duration_s/p50"):
        return None
    figure, [above, below] = _new(groups, rows=2, height=4.2)
    for name, color in _colors(groups).items():
        for axis, key, low, high in (
            (above, "mle/duration_s/p50", "mle/duration_s/p10", "mle/duration_s/p90"),
            (below, "mle/duration_weight/mean", "mle/duration_weight/min", "mle/duration_weight/max"),
        ):
            for style, curve in (("-", key), (":", low), (":", high)):
                steps, values = _by_step(groups[name], curve)
                _draw(axis, steps, [np.nanmean(values, axis=0)], color, linestyle=style)
    _log_scale(above)
    above.set_ylabel("Δt (s)")
    below.set_ylabel("weight")
    below.set_ylim(bottom=0)
    _steps(below)
    _legend(figure, groups)
    return figure


def _outcome_share(table: pd.DataFrame, outcome: str) -> float:
    kinds = table["outcome"].where(table["outcome"] != "ok", np.where(table["valid"], "valid", "no valid submission"))
    return float((kinds == outcome).mean())


def _outcomes(groups: Groups) -> Figure | None:
    if not _has_programs(groups):
        return None
    shares: dict[str, Callable[[pd.DataFrame], float]] = {
        name.replace("_", " "): lambda table, outcome=name: _outcome_share(table, outcome)  # type: ignore[misc]
        for name in OUTCOMES
    }
    if len(groups) > 1:
        tables = [table for runs in groups.values() for run in runs if not (table := run.programs()).empty]
        return _panels(groups, {name: share for name, share in shares.items() if any(map(share, tables))})[0]
    figure, [axis] = _new(groups, height=3.3)
    [runs] = groups.values()
    curves = {name: _by_programs(runs, _width(groups), share) for name, share in shares.items()}
    xs = curves["valid"][0]
    layers = [np.nanmean(values, axis=0) for _, values in curves.values()]
    axis.stackplot(xs, layers, colors=list(OUTCOMES.values()), labels=list(curves))
    axis.set_xlabel("executed programs")
    _share(axis, "share of programs")
    axis.set_xlim(xs[0], xs[-1] if len(xs) > 1 else xs[0] + 1)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _prompts(groups: Groups) -> Figure | None:
    if not _logged(groups, "mle/improve/valid_rate"):
        return None
    with_scores = _logged(groups, "mle/improve/score/mean")
    figure, axes = _new(groups, rows=2 if with_scores else 1, height=4.2 if with_scores else 2.9)
    several = len(groups) > 1
    for name, color in _colors(groups).items():
        for kind, dashes in (("scratch", "-"), ("improve", "--")):
            shade = color if several or kind == "scratch" else COLORS[1]
            _draw(axes[0], *_by_step(groups[name], f"mle/{kind}/valid_rate"), shade, linestyle=dashes)
            if with_scores:
                _draw(axes[1], *_by_step(groups[name], f"mle/{kind}/score/mean"), shade, linestyle=dashes)
        beats = _by_step(groups[name], "mle/improve/beats_parent_rate")
        _draw(axes[0], *beats, color if several else COLORS[2], None, linestyle=":")
        chance = _by_step(groups[name], "mle/improve/beats_parent_chance")
        _draw(axes[0], *chance, color if several else COLORS[3], None, linestyle="-.")
    _share(axes[0], "valid share")
    if with_scores:
        _score_scale(axes[1], groups)
    _steps(axes[-1])
    _legend(figure, groups)
    return figure


def _evaluations(groups: Groups) -> Figure | None:
    keys = sorted({key for runs in groups.values() for run in runs for entry in run.history for key in entry if key.startswith("mle/eval/") and key.endswith("best_of_n")})  # fmt: skip
    if not keys:
        return None
    figure, axes = _new(groups, rows=len(keys), height=1.2 + 1.8 * len(keys))
    for axis, key in zip(axes, keys, strict=True):
        for name, color in _colors(groups).items():
            _draw(axis, *_by_step(groups[name], key), color)
        where = key.removeprefix("mle/eval/").removesuffix("best_of_n").strip("/")
        axis.set_ylabel("score")
        axis.set_title(where)
    _steps(axes[-1])
    _legend(figure, groups)
    return figure
