"""Reads the lines of finished runs, and gives means over runs their intervals."""

import contextlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy.stats import t


def read(path: Path) -> list[dict[str, Any]]:
    """Lines of finished runs; a line truncated by a kill does not count."""
    lines = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(line))
    return lines


def evaluations(path: Path) -> list[dict[str, Any]]:
    """The lines of the programs that `trl-mle evaluate` executed, without those of completions, in the order of sampling."""
    return sorted((line for line in read(path) if "outcome" in line), key=lambda line: line["index"])


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
