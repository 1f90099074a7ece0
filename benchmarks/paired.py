"""Reads the lines of finished runs, and compares runs that are paired by seed, or by competition and seed."""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from rich.table import Table
from scipy.stats import t, ttest_rel


def read(path: Path) -> list[dict[str, Any]]:
    """Lines of finished runs; a line truncated by a kill does not count."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95% interval (Student's) over runs; NaN for a single one."""
    if len(values) == 1:
        return values[0], math.nan
    return fmean(values), t.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def bootstrap(figures: np.ndarray, resamples: int = 2000) -> tuple[float, float, float]:
    """Mean of figures of shape `(competitions, seeds)`, and its 95% interval over both."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(figures), size=(resamples, len(figures), 1))
    columns = rng.integers(figures.shape[1], size=(resamples, len(figures), figures.shape[1]))
    low, high = np.quantile(figures[rows, columns].mean(axis=(1, 2)), [0.025, 0.975])
    return float(figures.mean()), float(low), float(high)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction of p values: the smallest times their number, the next times one fewer, never below the one before."""
    corrected, largest = {}, 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, p * (len(p_values) - rank)))
        corrected[name] = largest
    return corrected


def hypotheses(outcome: str, pairs: Mapping[str, Sequence[tuple[float, float]]]) -> Table:
    """
    A table of differences.

    Args:
        outcome (`str`):
            Name of the outcome.
        pairs (`dict[str, list[tuple[float, float]]]`):
            By hypothesis, the outcomes of an arm and of the one that it is compared with, for each seed.

    Returns:
        `Table`: Means with 95% intervals, and p values (two-sided paired t tests with Holm's correction).
    """
    same = {name: all(one == other for one, other in values) for name, values in pairs.items()}
    found = {
        name: 1.0 if same[name] else float(ttest_rel(*zip(*values, strict=True)).pvalue)
        for name, values in pairs.items()
    }
    corrected = holm(found)
    table = Table(outcome, "mean ± 95% interval", "p, corrected")
    for name, values in pairs.items():
        mean, half = interval([one - other for one, other in values])
        table.add_row(name, f"{mean:+.2f} ± {half:.2f}", f"{corrected[name]:.3f}")
    return table
