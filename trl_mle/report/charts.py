"""The plots of a report, each answering one question, for one run or several overlaid runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from trl_mle.instrumentation import MILESTONES
from trl_mle.report.drawing import (
    BINS,
    COLORS,
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
    panels,
    programs_per_point,
    set_log_scale,
    wrap,
)
from trl_mle.report.training_run import TrainingRun, best_so_far


OUTCOMES = {
    "valid": "#009E73",
    "no valid submission": "#F0E442",
    "error": "#D55E00",
    "timeout": "#CC79A7",
    "out_of_memory": "#0072B2",
    "output_limit": "#56B4E9",
    "killed": "#000000",
}


TIMELINE = (
    "Asynchronous training. Areas: the trainer's time. Lines: time for the completions of a step, and for programs per slot, in "
    "parallel. Without waiting, a step takes as long as the longest of the three."
)
BANDS = {  # the trainer's time, from the bottom
    "training_s": ("training", "#0072B2"),
    "sync_s": ("weights to vLLM", "#56B4E9"),
    "generation_wait_s": ("waits for completions", "#E69F00"),
    "wait_s": ("waits for programs", "#D55E00"),
}
BESIDE = {"generation_s": ("completions", "-"), "execution_s": ("programs", "--")}


@dataclass(frozen=True)
class Chart:
    """
    A plot.

    Args:
        name (`str`):
            File name without extension.
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
    """Draws all plots that the runs have data for."""
    several = any(len(runs) > 1 for runs in groups.values())
    mean, band = (" Mean over runs.", " Line: mean over runs, band: ± 1 standard deviation.") if several else ("", "")
    for name, title, caption, draw in (
        ("reward", "Reward", "Mean reward of the completions of a step.", _reward),
        ("valid_rate", "Valid submissions", "Share of programs with a valid submission. Dotted: valid programs that were not observed to train a model, which may game the metric.", _valid_rate),
    ):  # fmt: skip
        if (figure := draw(groups)) is not None:
            yield Chart(name, title, caption + band, figure)
    joined = " The best-so-far curve starts when each run that ever has a valid program has one." if several else ""
    where, best = "", "best so far"
    if any(run.holds_out for runs in groups.values() for run in runs):
        where, best = "held-out rows of the ", "for the best program so far on the other rows"
    for competition, higher_is_better in _competitions(groups).items():
        slug = "".join(letter if letter.isalnum() else "-" for letter in competition)
        arrow = "higher is better" if higher_is_better else "lower is better"
        for name, title, caption, column in (
            ("score_by_programs", "Score by programs", "", None),
            ("score_by_time", "Score by wall clock", " Time counts from the end of the first program; pauses between an interruption and its resumption count.", "seconds"),
        ):  # fmt: skip
            figure = _score(groups, competition, higher_is_better, column)
            text = f"Score on the {where}hidden answers ({arrow}). Solid: {best}, dashed: mean of valid programs.{caption}"
            yield Chart(f"{name}-{slug}", f"{title}: {competition}", text + band + joined, figure)
    below = " Below: mean score of valid programs." if is_logged(groups, "mle/improve/score/mean") else ""
    over_time, panels = (band, " Each panel has its own scale.") if len(groups) > 1 else (mean, "")
    for name, title, caption, draw in (
        ("milestones", "Milestones", "Share of the programs that reached each milestone." + band, _milestones),
        ("durations", "Δt and duration weights", "Above: how long programs ran, median (solid), 10th and 90th percentile (dotted). Below: the duration weight of their advantages, mean (solid), smallest and largest (dotted)." + mean, _durations),
        ("timeline", "Time within a step", TIMELINE + mean, _timeline),
        ("outcomes", "Outcomes", "How programs ended. Completions without code are not shown." + panels + over_time, _outcomes),
        ("prompts", "From scratch or improving", "Solid: from scratch. Dashed: improving. Dotted: how often an improved program beat the one shown; dash-dotted: how often a program from scratch would have." + below + band, _prompts),
        ("best_of_n", "Evaluation during training", "The best of N fresh programs on fixed prompts." + band, _evaluations),
    ):  # fmt: skip
        if (figure := draw(groups)) is not None:
            yield Chart(name, title, caption, figure)


def _competitions(groups: Groups) -> dict[str, bool]:
    return {name: higher for runs in groups.values() for run in runs for name, higher in run.directions.items()}


def _reward(groups: Groups) -> Figure | None:
    figure, [axis] = new_figure(groups)
    axis.set_ylabel("reward")
    if is_logged(groups, "reward"):
        for name, color in colors_of(groups).items():
            draw_curve(axis, *by_step(groups[name], "reward"), color)
        label_steps(axis)
    elif has_programs(groups):  # another trainer's run, before its first checkpoint
        width = programs_per_point(groups)
        for name, color in colors_of(groups).items():
            draw_curve(axis, *by_programs(groups[name], width, lambda table: float(table["reward"].mean())), color)
        axis.set_xlabel("programs")
    else:
        return None
    add_legend(figure, groups)
    return figure


def _valid_rate(groups: Groups) -> Figure | None:
    if not has_programs(groups):
        if not is_logged(groups, "mle/valid_rate"):
            return None
        figure, [axis] = new_figure(groups)
        for name, color in colors_of(groups).items():
            draw_curve(axis, *by_step(groups[name], "mle/valid_rate"), color)
        label_steps(axis)
    else:
        figure, [axis] = new_figure(groups)
        width = programs_per_point(groups)
        for name, color in colors_of(groups).items():
            draw_curve(axis, *by_programs(groups[name], width, lambda table: float(table["valid"].mean())), color)
            untrained = by_programs(groups[name], width, lambda table: float(table["untrained"].mean()))
            draw_curve(axis, *untrained, color, linestyle=":")
        axis.set_xlabel("programs")
    label_share(axis, "share of programs")
    add_legend(figure, groups)
    return figure


def _score(groups: Groups, competition: str, higher_is_better: bool, column: str | None) -> Figure:
    figure, [axis] = new_figure(groups)
    width = programs_per_point(groups, competition)
    unit, size = "programs", 1
    if column is not None:
        tables = [run.programs(competition) for runs in groups.values() for run in runs]
        unit, size = _unit(max((table[column].max() for table in tables if not table.empty), default=0.0))
    for name, color in colors_of(groups).items():
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
            # If runs joined or left the mean midway, it could get worse: it starts once all runs have a best, and
            # ended runs keep theirs
            found[:, np.isnan(found).any(axis=0)] = np.nan
            draw_curve(axis, list(grid / size), list(found), color)
        if column is None:
            xs, curves = by_programs(groups[name], width, lambda table: float(table["reported"].mean()), competition)
            draw_curve(axis, xs, curves, color, linestyle="--")
        else:
            edges = np.linspace(0, max(ends), BINS + 1)
            curves = [
                [float(table["reported"][(table[column] >= low) & (table[column] < high)].mean()) for low, high in pairwise(edges)]
                for table in tables
            ]  # fmt: skip
            draw_curve(axis, list((edges[1:] + edges[:-1]) / 2 / size), curves, color, linestyle="--")
    label_score(axis, groups, competition)
    axis.set_xlabel(unit if column is None else f"wall clock ({unit})")
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


def _milestones(groups: Groups) -> Figure | None:
    if not has_programs(groups):
        return None
    shares: dict[str, Callable[[pd.DataFrame], float]] = {
        milestone.replace("_", " "): lambda table, key=milestone: float(table[key].mean())  # type: ignore[misc]
        for milestone in MILESTONES
    }
    if len(groups) > 1:
        figure, axes = panels(groups, shares)
        for axis in axes:
            axis.set_ylim(0, 1)
        return figure
    figure, [axis] = new_figure(groups, height=3.3)
    [runs] = groups.values()
    width = programs_per_point(groups)
    for i, (name, share) in enumerate(shares.items()):
        draw_curve(axis, *by_programs(runs, width, share), f"C{i}", name)
    axis.set_xlabel("programs")
    label_share(axis, "share of programs")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _durations(groups: Groups) -> Figure | None:
    if not is_logged(groups, "mle/duration_s/p50"):
        return None
    figure, [above, below] = new_figure(groups, rows=2, height=4.2)
    for name, color in colors_of(groups).items():
        for axis, key, low, high in (
            (above, "mle/duration_s/p50", "mle/duration_s/p10", "mle/duration_s/p90"),
            (below, "mle/duration_weight/mean", "mle/duration_weight/min", "mle/duration_weight/max"),
        ):
            for style, curve in (("-", key), (":", low), (":", high)):
                steps, values = by_step(groups[name], curve)
                draw_curve(axis, steps, [np.nanmean(values, axis=0)], color, linestyle=style)
    set_log_scale(above)
    above.set_ylabel("Δt (s)")
    below.set_ylabel("weight")
    below.set_ylim(bottom=0)
    label_steps(below)
    add_legend(figure, groups)
    return figure


def _timeline(groups: Groups) -> Figure | None:
    found = {name: runs for name, runs in groups.items() if is_logged({name: runs}, "mle/async/training_s")}
    if not found:
        return None
    figure, axes = new_figure({}, rows=len(found), height=0.7 + 2.4 * len(found))
    for axis, (name, runs) in zip(axes, found.items(), strict=True):
        steps = sorted({step for run in runs for step in run.metric("mle/async/training_s")})
        seconds = {key: _mean_by_step(runs, f"mle/async/{key}", steps) for key in (*BANDS, *BESIDE)}
        axis.stackplot(
            steps,
            [seconds[key] for key in BANDS],
            labels=[label for label, _ in BANDS.values()],
            colors=[color for _, color in BANDS.values()],
            alpha=0.8,
        )
        for key, (label, style) in BESIDE.items():
            axis.plot(steps, seconds[key], color="#000000", linestyle=style, linewidth=1.1, label=label)
        axis.set_ylabel("seconds of a step")
        axis.set_ylim(bottom=0)
        if len(found) > 1:
            axis.set_title(wrap(name))
    label_steps(axes[-1])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _mean_by_step(runs: Sequence[TrainingRun], key: str, steps: Sequence[int]) -> list[float]:
    """A metric's mean over runs at these steps; 0 where a run lacks it."""
    found = [[run.metric(key).get(step, 0.0) for run in runs] for step in steps]
    return [float(np.mean(values)) for values in found]


def _outcome_share(table: pd.DataFrame, outcome: str) -> float:
    kinds = table["outcome"].where(table["outcome"] != "ok", np.where(table["valid"], "valid", "no valid submission"))
    return float((kinds == outcome).mean())


def _outcomes(groups: Groups) -> Figure | None:
    if not has_programs(groups):
        return None
    shares: dict[str, Callable[[pd.DataFrame], float]] = {
        name.replace("_", " "): lambda table, outcome=name: _outcome_share(table, outcome)  # type: ignore[misc]
        for name in OUTCOMES
    }
    if len(groups) > 1:
        tables = [table for runs in groups.values() for run in runs if not (table := run.programs()).empty]
        return panels(groups, {name: share for name, share in shares.items() if any(map(share, tables))})[0]
    figure, [axis] = new_figure(groups, height=3.3)
    [runs] = groups.values()
    curves = {name: by_programs(runs, programs_per_point(groups), share) for name, share in shares.items()}
    xs = curves["valid"][0]
    layers = [np.nanmean(values, axis=0) for _, values in curves.values()]
    axis.stackplot(xs, layers, colors=list(OUTCOMES.values()), labels=list(curves))
    axis.set_xlabel("programs")
    label_share(axis, "share of programs")
    axis.set_xlim(xs[0], xs[-1] if len(xs) > 1 else xs[0] + 1)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _prompts(groups: Groups) -> Figure | None:
    if not is_logged(groups, "mle/improve/valid_rate"):
        return None
    with_scores = is_logged(groups, "mle/improve/score/mean")
    figure, axes = new_figure(groups, rows=2 if with_scores else 1, height=4.2 if with_scores else 2.9)
    several = len(groups) > 1
    for name, color in colors_of(groups).items():
        for kind, dashes in (("scratch", "-"), ("improve", "--")):
            shade = color if several or kind == "scratch" else COLORS[1]
            draw_curve(axes[0], *by_step(groups[name], f"mle/{kind}/valid_rate"), shade, linestyle=dashes)
            if with_scores:
                draw_curve(axes[1], *by_step(groups[name], f"mle/{kind}/score/mean"), shade, linestyle=dashes)
        beats = by_step(groups[name], "mle/improve/beats_parent_rate")
        draw_curve(axes[0], *beats, color if several else COLORS[2], None, linestyle=":")
        chance = by_step(groups[name], "mle/improve/beats_parent_chance")
        draw_curve(axes[0], *chance, color if several else COLORS[3], None, linestyle="-.")
    label_share(axes[0], "valid share")
    if with_scores:
        label_score(axes[1], groups)
    label_steps(axes[-1])
    add_legend(figure, groups)
    return figure


def _evaluations(groups: Groups) -> Figure | None:
    keys = sorted({key for runs in groups.values() for run in runs for entry in run.history for key in entry if key.startswith("mle/eval/") and key.endswith("best_of_n")})  # fmt: skip
    if not keys:
        return None
    figure, axes = new_figure(groups, rows=len(keys), height=1.2 + 1.8 * len(keys))
    for axis, key in zip(axes, keys, strict=True):
        for name, color in colors_of(groups).items():
            draw_curve(axis, *by_step(groups[name], key), color)
        where = key.removeprefix("mle/eval/").removesuffix("best_of_n").strip("/")
        axis.set_ylabel("score")
        axis.set_title(where)
    label_steps(axes[-1])
    add_legend(figure, groups)
    return figure
