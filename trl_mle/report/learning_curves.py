"""Plots learning curves from the trainer's log."""

import json
from pathlib import Path

import matplotlib as mpl


mpl.use("Agg")  # only writes a file, needs no display

import matplotlib.pyplot as plt


# (title, unit, metrics with their labels): one panel each.
PANELS = (
    ("Reward", "reward", (("reward", "mean"),)),
    ("Valid submissions", "share of programs", (("mle/valid_rate", "valid"),)),
    ("Score of valid submissions", "score", (("mle/score/mean", "mean"), ("mle/score/best", "best of the step"))),
    ("Duration Δt", "seconds", (("mle/duration_s/p50", "median"), ("mle/duration_s/p90", "90th percentile"), ("mle/duration_s/mean", "mean"))),
)  # fmt: skip


def plot_learning_curves(trainer_state: Path, output: Path, title: str) -> None:
    """
    Plots reward, valid rate, score and Δt over training steps.

    Args:
        trainer_state (`Path`):
            `trainer_state.json` of a checkpoint or of the output folder.
        output (`Path`):
            PNG file to write.
        title (`str`):
            Headline.
    """
    history = json.loads(trainer_state.read_text())["log_history"]
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    figure.suptitle(title)
    for axis, (name, unit, curves) in zip(axes.flat, PANELS, strict=True):
        for key, label in curves:
            points = [(entry["step"], entry[key]) for entry in history if key in entry]
            axis.plot(
                [step for step, _ in points], [value for _, value in points], marker="o", markersize=3, label=label
            )
        axis.set_title(name)
        axis.set_xlabel("training step")
        axis.set_ylabel(unit)
        axis.grid(alpha=0.3)
        if len(curves) > 1:
            axis.legend()
    axes.flat[1].set_ylim(0, 1)
    figure.savefig(output, dpi=120)
    plt.close(figure)
