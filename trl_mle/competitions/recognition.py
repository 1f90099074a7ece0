"""Recognizes the metric of another package by its scores of trial submissions, without reading its code."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions.competition import Competition
from trl_mle.competitions.metrics import METRICS, Metric, Takes
from trl_mle.competitions.prepared import csv_text


MOVED = (0.1, 0.25, 0.5, 0.75, 1.0, 1.0)  # shares of the rows that get another row's answer
BLURRED = (0.05, 0.2, 0.5, 0.8, 0.9, 1.0)  # shares of noise
PROBED = (2, 8)  # trials that are also given in other forms
LEAST_TRIALS = 5  # that both metrics score
TOLERANCE = 1e-4  # of the scores' spread: packages round their scores
SAME = 1e-9  # of the scores' spread: the same formula, computed in another order


class Recognized(NamedTuple):
    """
    The metric of [`METRICS`] that gives the same scores as another one.

    Args:
        metric (`str`):
            Its name. If several give the same scores, the one that refuses the same trials; then the first of `METRICS`.
        sign (`int`):
            1, or -1 if the other's scores have the opposite sign.
        trials (`int`):
            Number of trials that both score.
        difference (`float`):
            Largest absolute difference of two scores.
    """

    metric: str
    sign: int
    trials: int
    difference: float


def trial_submissions(answers: pd.DataFrame, id_column: str) -> dict[str, bytes]:
    """
    Submissions on which metrics differ, as CSV files by name: in some, rows have each other's answers; in others, numbers
    are blurred. Two are also given with another column, with the id last, and with the rows reversed, see [`form`].

    Args:
        answers (`DataFrame`):
            The answers, in the format of a submission.
        id_column (`str`):
            Column with the ids.
    """
    rng = np.random.default_rng(0)
    targets = answers.drop(columns=id_column)
    trials = [_moved(targets, share, rng) for share in MOVED]
    if all(is_numeric_dtype(targets[name]) for name in targets):
        trials += [
            _blurred(targets.astype(float), share, number % 2 == 1, rng) for number, share in enumerate(BLURRED)
        ]
        if targets.shape[1] > 1 and np.allclose(targets.sum(axis=1), 1) and (targets >= 0).all(axis=None):
            # Log losses differ in how they clip a probability of 0
            trials = [(trial + 0.02).div((trial + 0.02).sum(axis=1), axis=0) for trial in trials]
    else:
        trials += [_cut(_moved(targets, share, rng)) for share in MOVED]
    found = {}
    for number, trial in enumerate(trials):
        table = answers.copy()
        for name in targets:
            table[name] = trial[name].array
        found[f"trial-{number}"] = table
        if number in PROBED:
            found[f"extra-{number}"] = table.assign(trl_mle_extra=0)
            found[f"id_last-{number}"] = table[[*targets, id_column]]
            found[f"reversed-{number}"] = table.iloc[::-1]
    return {name: csv_text(table).encode() for name, table in found.items()}


def _moved(targets: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """
    Some rows with the answers of others, all columns of a row together: one-hot answers stay so. The others are few,
    because precision and recall are the same where each label is predicted as often as it occurs.
    """
    count = len(targets)
    rows = rng.choice(count, min(count, max(2, round(share * count))), replace=False)
    order = np.arange(count)
    order[rows] = rng.choice(rng.permutation(count)[: max(2, count // 3)], len(rows))
    return targets.iloc[order].reset_index(drop=True)


def _blurred(targets: pd.DataFrame, share: float, by_factors: bool, rng: np.random.Generator) -> pd.DataFrame:
    values = targets.to_numpy()
    if np.isin(values, (0, 1)).all():
        return targets * (1 - share) + share * rng.uniform(size=values.shape)
    noise = rng.normal(size=values.shape)
    if by_factors:
        return targets * np.exp(share * noise)  # positive numbers stay so
    return targets + share * values.std(axis=0) * noise


def _cut(targets: pd.DataFrame) -> pd.DataFrame:
    """Texts of several words without their second half."""

    def shorter(cell: Any) -> Any:
        words = cell.split() if isinstance(cell, str) else []
        return " ".join(words[: len(words) // 2]) if len(words) > 1 else cell

    return targets.map(shorter)


def recognized(
    competition: Competition, trials: Mapping[str, bytes], scores: Mapping[str, float]
) -> Recognized | None:
    """
    Finds the metric that gives the same scores, up to sign.

    Args:
        competition ([`Competition`]):
            The competition; its metric is ignored.
        trials (`Mapping[str, bytes]`):
            The [`trial_submissions`].
        scores (`Mapping[str, float]`):
            The other metric's score of each that it does not refuse.

    Returns:
        [`Recognized`] or `None`: `None` if no metric does.
    """
    aligned = replace(competition, custom_metric=Metric(lambda answers, predictions: 0.0, higher_is_better=True))
    truth = aligned.predictions(competition.answers.read_bytes())
    names = [name for name in trials if name.startswith("trial-")]
    tables = {name: aligned.predictions(trials[name]) for name in names}
    # Log losses differ in how they clip a probability of 0: for what takes scores, only others count
    blurred = [name for name in names if not np.isin(tables[name].to_numpy(), (0, 1)).all()]
    best: tuple[tuple[int, bool], Recognized] | None = None
    for metric, facts in METRICS.items():
        compared = blurred if facts.takes is Takes.SCORES else names
        ours = {name: value for name, table in tables.items() if (value := _score(metric, truth, table)) is not None}
        both = [name for name in compared if name in ours and name in scores]
        spread = np.ptp([ours[name] for name in both]) if both else 0.0
        if len(both) < LEAST_TRIALS or spread == 0:
            continue
        one_refuses = sum((name in ours) != (name in scores) for name in compared)
        for sign in (1, -1):
            difference = max(abs(scores[name] - sign * ours[name]) for name in both)
            key = one_refuses, difference > SAME * spread
            if difference <= TOLERANCE * spread and (best is None or key < best[0]):
                best = key, Recognized(metric, sign, len(both), difference)
    return best[1] if best else None


def _score(metric: str, answers: pd.DataFrame, predictions: pd.DataFrame) -> float | None:
    with np.errstate(all="ignore"):
        try:
            value = METRICS[metric].score(answers, predictions)
        except (ValueError, TypeError, AttributeError):  # the latter two: texts for numbers, or the reverse
            return None
    return value if math.isfinite(value) else None


def form(scores: Mapping[str, float]) -> dict[str, bool]:
    """
    What else a metric checks, as fields of [`~trl_mle.competitions.catalog.Layout`]: whether it refuses another column or
    an id that is not the first column, and whether it compares the rows in their order.
    """
    tried = [number for number in PROBED if f"trial-{number}" in scores]
    values = [value for name, value in scores.items() if name.startswith("trial-")]

    def moves(number: int) -> bool:
        reverse = scores.get(f"reversed-{number}")
        return reverse is not None and abs(reverse - scores[f"trial-{number}"]) > TOLERANCE * np.ptp(values)

    found = {
        "exact_columns": any(f"extra-{number}" not in scores for number in tried),
        "id_first": any(f"id_last-{number}" not in scores for number in tried),
        "in_file_order": any(map(moves, tried)),
    }
    return {name: True for name, is_so in found.items() if is_so}
