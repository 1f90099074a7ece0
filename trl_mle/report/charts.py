"""The plots of a report, each answering one question, for one run or several overlaid runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from trl_mle.instrumentation import MILESTONES
from trl_mle.report.drawing import (
    Groups,
    add_legend,
    by_programs,
    by_step,
    colors_of,
    draw_curve,
    has_programs,
    is_logged,
    label_score,
    label_share,
    label_steps,
    new_figure,
    programs_per_point,
    set_log_scale,
)
from trl_mle.report.training_run import best_so_far


OUTCOMES = ("valid", "no valid submission", "error", "timeout", "out_of_memory", "output_limit", "killed")


@dataclass(frozen=True)
class Chart:
    """A plot: its file name without extension, what it shows, how to read it, and the picture."""

    name: str
    title: str
    caption: str
    figure: Figure


def charts(groups: Groups) -> Iterator[Chart]:
    """Draws all plots that the runs have data for."""
    several = any(len(runs) > 1 for runs in groups.values())
    band = " Line: mean over runs, band: ± 1 standard deviation." if several else ""
    joined = " The best-so-far curve starts when each run that ever has a valid program has one." if several else ""
    where, best = "", "best so far"
    if any(run.holds_out for runs in groups.values() for run in runs):
        where, best = "held-out rows of the ", "for the best program so far on the other rows"
    slugs: set[str] = set()
    for competition, higher_is_better in _competitions(groups).items():
        slug = "".join(letter if letter.isalnum() else "-" for letter in competition)[:100]
        if slug in slugs:  # a/b and a-b, or two long names that begin alike
            slug += f"-{len(slugs)}"
        slugs.add(slug)
        arrow = "higher is better" if higher_is_better else "lower is better"
        for name, title, column, caption in (
            ("score_by_programs", "Score by programs", "programs", ""),
            ("score_by_time", "Score by wall clock", "seconds", " Time counts from the end of the first program; pauses between an interruption and its resumption count."),
        ):  # fmt: skip
            drawn = _score(groups, competition, higher_is_better, column)
            text = f"Score on the {where}hidden answers ({arrow}). Solid: {best}, dashed: mean of valid programs.{caption}"
            yield Chart(f"{name}-{slug}", f"{title}: {competition}", text + band + joined, drawn)
    below = " Below: mean score of valid programs." if is_logged(groups, "mle/improve/score/mean") else ""
    for name, title, caption, draw in (
        ("reward", "Reward", "Mean reward of the completions of a step.", _reward),
        ("valid_rate", "Valid submissions", "Share of programs with a valid submission. Dotted: valid programs that were not observed to train a model, which may game the metric.", _valid_rate),
        ("milestones", "Milestones", "Share of the programs that reached each milestone.", _milestones),
        ("durations", "Δt and duration weights", "Above: how long programs ran, median (solid), 10th and 90th percentile (dotted). Below: the duration weight of their advantages, mean (solid), smallest and largest (dotted).", _durations),
        ("timeline", "Time within a step", "Asynchronous training. Above, the trainer's time: training (solid), waiting for completions (dashed) and for programs (dash-dotted), weights to vLLM (dotted). Below, what runs beside it: completions (solid), programs per slot (dashed). Without waiting, a step takes as long as the longest of training, completions and programs.", _timeline),
        ("outcomes", "Outcomes", "How programs ended. Completions without code are not shown. Each panel has its own scale.", _outcomes),
        ("prompts", "From scratch or improving", "Solid: from scratch. Dashed: improving. Dotted: how often an improved program beat the one shown; dash-dotted: how often a program from scratch would have." + below, _prompts),
    ):  # fmt: skip
        if (figure := draw(groups)) is not None:
            yield Chart(name, title, caption + band, figure)


def _competitions(groups: Groups) -> dict[str, bool]:
    return {name: higher for runs in groups.values() for run in runs for name, higher in run.directions.items()}


def _logged(groups: Groups, rows: Sequence[tuple[str, Mapping[str, str]]]) -> Figure | None:
    """Logged metrics over the steps: a row has a label, and a line style for each of its metrics."""
    rows = [(label, curves) for label, curves in rows if any(is_logged(groups, key) for key in curves)]
    if not rows:
        return None
    figure, axes = new_figure(groups, rows=len(rows), height=1.1 + 1.8 * len(rows))
    for axis, (label, curves) in zip(axes, rows, strict=True):
        axis.set_ylabel(label)
        for name, color in colors_of(groups).items():
            for key, style in curves.items():
                draw_curve(axis, *by_step(groups[name], key), color, linestyle=style)
    label_steps(axes[-1])
    add_legend(figure, groups)
    return figure


def _reward(groups: Groups) -> Figure | None:
    return _logged(groups, [("reward", {"reward": "-"})])


def _valid_rate(groups: Groups) -> Figure | None:
    if not has_programs(groups):
        figure = _logged(groups, [("", {"mle/valid_rate": "-"})])
    else:
        figure, [axis] = new_figure(groups)
        width = programs_per_point(groups)
        for name, color in colors_of(groups).items():
            for column, style in (("valid", "-"), ("untrained", ":")):
                curves = by_programs(groups[name], width, lambda table, column=column: float(table[column].mean()))  # type: ignore[misc]
                draw_curve(axis, *curves, color, linestyle=style)
        axis.set_xlabel("programs")
        add_legend(figure, groups)
    if figure is not None:
        label_share(figure.axes[0], "share of programs")
    return figure


def _score(groups: Groups, competition: str, higher_is_better: bool, column: str) -> Figure:
    """The best so far and the mean score, by a column of the programs: their number, or the time."""
    tables = {
        name: [
            table.assign(programs=np.arange(1, len(table) + 1))
            for run in runs
            if not (table := run.programs(competition)).empty
        ]
        for name, runs in groups.items()
    }
    figure, [axis] = new_figure(groups)
    width = programs_per_point(groups, competition)
    unit, size = "programs", 1
    if column == "seconds":
        unit, size = _unit(max((table[column].max() for found in tables.values() for table in found), default=0.0))
    for name, color in colors_of(groups).items():
        if not tables[name]:
            continue
        end = max(float(table[column].iloc[-1]) for table in tables[name])
        grid = np.linspace(0, end, 200)
        edges = np.linspace(0, end, 1 + -(-max(map(len, tables[name])) // width))
        bests, means = [], []
        for table in tables[name]:
            so_far = best_so_far(table["score"].to_numpy(), higher_is_better, table["reported"].to_numpy())
            places = np.searchsorted(table[column], grid, side="right") - 1
            bests.append(np.where(places >= 0, so_far[places], np.nan))
            bins = np.searchsorted(edges[1:-1], table[column])
            means.append(table["reported"].groupby(bins).mean().reindex(range(len(edges) - 1)).to_numpy())
        found = np.array([curve for curve in bests if not np.isnan(curve[-1])])
        if len(found):
            # If runs joined or left the mean midway, it could get worse: it starts once all runs have a best, and
            # ended runs keep theirs
            found[:, np.isnan(found).any(axis=0)] = np.nan
            draw_curve(axis, list(grid / size), list(found), color)
        draw_curve(axis, list((edges[1:] + edges[:-1]) / 2 / size), means, color, linestyle="--")
    label_score(axis, groups, competition)
    axis.set_xlabel(unit if column == "programs" else f"wall clock ({unit})")
    add_legend(figure, groups)
    return figure


def _unit(seconds: float) -> tuple[str, int]:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return unit, size
    return "s", 1


def duration(seconds: float) -> str:
    """Formats seconds in a suitable unit."""
    unit, size = _unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def _shares(groups: Groups, shares: Mapping[str, Callable[[pd.DataFrame], float]]) -> Figure:
    """Shares over the programs, one panel for each, with one curve for each name."""
    rows = -(-len(shares) // 2)
    figure, axes = new_figure(groups, rows, height=0.4 + 1.15 * rows, columns=2)
    for unused in axes[len(shares) :]:
        unused.remove()
    axes, width = axes[: len(shares)], programs_per_point(groups)
    for axis, (title, share) in zip(axes, shares.items(), strict=True):
        for name, color in colors_of(groups).items():
            draw_curve(axis, *by_programs(groups[name], width, share), color, linewidth=1.1)
        axis.set_title(title)
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0))
    for axis in axes[-2:]:  # the bottom panel of each column
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("programs")
    add_legend(figure, groups)
    return figure


def _milestones(groups: Groups) -> Figure | None:
    if not has_programs(groups):
        return None
    shares: dict[str, Callable[[pd.DataFrame], float]] = {
        milestone.replace("_", " "): lambda table, key=milestone: float(table[key].mean())  # type: ignore[misc]
        for milestone in MILESTONES
    }
    figure = _shares(groups, shares)
    for axis in figure.axes:
        axis.set_ylim(0, 1)
    return figure


def _outcomes(groups: Groups) -> Figure | None:
    if not has_programs(groups):
        return None

    def share(table: pd.DataFrame, outcome: str) -> float:
        ended = np.where(table["valid"], "valid", "no valid submission")
        return float((table["outcome"].where(table["outcome"] != "ok", ended) == outcome).mean())

    tables = [table for runs in groups.values() for run in runs if not (table := run.programs()).empty]
    shares: dict[str, Callable[[pd.DataFrame], float]] = {
        outcome.replace("_", " "): lambda table, outcome=outcome: share(table, outcome)  # type: ignore[misc]
        for outcome in OUTCOMES
        if any(share(table, outcome) for table in tables)
    }
    return _shares(groups, shares)


def _durations(groups: Groups) -> Figure | None:
    figure = _logged(
        groups,
        [
            ("Δt (s)", {f"mle/duration_s/{name}": style for name, style in (("p50", "-"), ("p10", ":"), ("p90", ":"))}),
            ("weight", {f"mle/duration_weight/{name}": style for name, style in (("mean", "-"), ("min", ":"), ("max", ":"))}),
        ],
    )  # fmt: skip
    if figure is not None:
        set_log_scale(figure.axes[0])
        for axis in figure.axes[1:]:
            axis.set_ylim(bottom=0)
    return figure


def _timeline(groups: Groups) -> Figure | None:
    trainer = {"training_s": "-", "generation_wait_s": "--", "wait_s": "-.", "sync_s": ":"}
    beside = {"generation_s": "-", "execution_s": "--"}
    rows = [
        (label, {f"mle/async/{key}": style for key, style in curves.items()})
        for label, curves in (("trainer (s)", trainer), ("beside (s)", beside))
    ]
    return _logged(groups, rows)


def _prompts(groups: Groups) -> Figure | None:
    if not is_logged(groups, "mle/improve/valid_rate"):
        return None
    shares = {"scratch/valid_rate": "-", "improve/valid_rate": "--"}
    shares |= {"improve/beats_parent_rate": ":", "improve/beats_parent_chance": "-."}
    scores = {"mle/scratch/score/mean": "-", "mle/improve/score/mean": "--"}
    figure = _logged(groups, [("", {f"mle/{key}": style for key, style in shares.items()}), ("score", scores)])
    assert figure is not None
    label_share(figure.axes[0], "valid share")
    if len(figure.axes) > 1:
        label_score(figure.axes[1], groups)
    return figure
