"""Plots learning curves from the trainer's log."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from trl_mle.report.drawing import STYLE, label_score, label_share, label_steps
from trl_mle.report.training_run import TrainingRun, read_run
from trl_mle.showing import terminal_line


# (title, unit, metrics with their labels): one panel each.
PANELS = (
    ("Reward", "reward", (("reward", "mean"),)),
    ("Valid submissions", "share of programs", (("mle/valid_rate", "valid"),)),
    ("Score of valid submissions", "score", (("mle/score/mean", "mean"), ("mle/score/best", "best of the step"))),
    ("Duration Δt", "seconds", (("mle/duration_s/p50", "median"), ("mle/duration_s/p90", "90th percentile"), ("mle/duration_s/mean", "mean"))),
)  # fmt: skip


def plot_learning_curves(folder: Path, output: Path, title: str) -> None:
    """
    Plots reward, valid rate, score and Δt over training steps.

    Args:
        folder (`Path`):
            The run's output folder.
        output (`Path`):
            PNG file to write.
        title (`str`):
            Headline.

    Raises:
        `FileNotFoundError`: The folder holds no run.
    """
    with mpl.rc_context(STYLE):
        draw_learning_curves(read_run(folder, title)).savefig(output, dpi=120)


def draw_learning_curves(run: TrainingRun) -> Figure:
    """The plots of a run, with its name as headline."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    figure.suptitle(terminal_line(run.name))
    axes = figure.subplots(2, 2, sharex=True).flat
    for axis, (name, unit, curves) in zip(axes, PANELS, strict=True):
        known = [(label, values) for key, label in curves if (values := run.metric(key))]
        for label, values in known:
            axis.plot(list(values), list(values.values()), marker="o", markersize=3, label=label)
        axis.set_title(name)
        axis.set_ylabel(unit)
        label_steps(axis)
        axis.tick_params(labelbottom=True)
        if not known:
            axis.set_yticks([])
            axis.text(0.5, 0.5, "not logged", transform=axis.transAxes, horizontalalignment="center")
        elif len(known) > 1:
            axis.legend()
    label_share(axes[1], "share of programs")
    label_score(axes[2], {run.name: [run]})
    return figure
