"""The columns to predict: whether a metric can score them, and the answers made from them."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype

from trl_mle.competitions.competition import MAX_COLUMNS, CompetitionError
from trl_mle.competitions.metrics import Metric, Takes
from trl_mle.competitions.reading import as_read, first_cell, listed, shortened
from trl_mle.competitions.split import is_measured


logger = logging.getLogger(__name__)


def what_it_takes(targets: pd.DataFrame) -> Takes:
    """What a function of the user's own compares: numbers if one of the targets looks measured, else labels."""
    numbers = targets.apply(pd.to_numeric, errors="coerce")
    measured = any((numbers[name] % 1 != 0).any() or is_measured(numbers[name]) for name in numbers)
    return Takes.NUMBERS if numbers.notna().all(axis=None) and measured else Takes.LABELS


def check_target(cells: pd.Series, metric: str, takes: Takes) -> None:
    """Refuses a target that the metric is not for."""
    numbers = pd.to_numeric(cells, errors="coerce")
    if as_read(cells.to_frame()).iloc[:, 0].nunique() == 1:
        raise CompetitionError(f"{cells.name!r} is {cells.iloc[0]!r} in all rows: there is nothing to learn")
    needs_numbers = takes is Takes.NUMBERS or metric == "quadratic_weighted_kappa"  # whose labels have an order
    if needs_numbers and (is_odd := ~np.isfinite(numbers)).any():
        raise CompetitionError(
            f"{metric} needs numbers, and {cells.name!r} holds {first_cell(cells, is_odd)}: correct or empty it, take "
            "--read_csv decimal=, or thousands=, as the file has it, na_values=?, or accuracy for labels"
        )
    if takes in (Takes.LABELS, Takes.PROBABILITIES) and numbers.notna().all():
        has_fraction = numbers % 1 != 0
        if has_fraction.any() or numbers.nunique() > len(cells) / 2:
            raise CompetitionError(
                f"{cells.name!r} looks continuous ({cells.iloc[has_fraction.argmax()]}, say), and {metric} is for "
                "labels: take rmse, mae or r2, or write a letter before each label"
            )


def zeros_and_ones(cells: pd.Series, metric: str) -> tuple[pd.Series, str]:
    """Two labels as 0 and 1, in the order of scikit-learn's `classes_`, and what they mean."""
    seen = as_read(cells.to_frame()).iloc[:, 0]
    labels = sorted(seen.unique().tolist())
    if len(labels) != 2:
        what = f"{metric} needs two labels in {cells.name!r}, which holds {listed(labels)}"
        raise CompetitionError(f"{what}: take log_loss for labels, or rmse for measurements")
    if labels == [0, 1] and not is_bool_dtype(seen):
        return cells, ""
    logger.warning("%r: 1 stands for %r and 0 for %r", cells.name, *reversed(labels))
    meaning = f" (1 for {shortened(str(labels[1]))}, 0 for {shortened(str(labels[0]))})"
    return (seen == labels[1]).astype(int).astype(str), meaning


def make_answers(
    rows: pd.DataFrame, targets: Sequence[str], metric: str, takes: Takes
) -> tuple[pd.DataFrame, list[Any]]:
    """The answers in the format of a submission, and for probabilities the labels, as models order them."""
    if takes is Takes.PROBABILITIES:
        if len(targets) > 1:
            raise CompetitionError(f"{metric} takes one --target, a column of labels")
        seen = as_read(rows[targets])[targets[0]]
        labels = sorted(seen.unique().tolist())
        if len(labels) > min(len(rows) / 4, MAX_COLUMNS - 1):
            what = f"{targets[0]!r} has {len(labels)} different values"
            raise CompetitionError(f"{what}: {metric} takes {MAX_COLUMNS - 1} labels at most, of four rows each")
        answers = pd.DataFrame({f"{targets[0]}_{label}": (seen == label).astype(int) for label in labels})
        if len(taken := rows.columns.intersection(answers.columns)):
            raise CompetitionError(f"a submission has a column {taken[0]!r} for a label: rename the table's")
        return answers, labels
    columns = {}
    for name in targets:
        numbers = pd.to_numeric(rows[name], errors="coerce")
        is_whole = (numbers % 1 == 0).all() and numbers.abs().max() < 2**53
        is_text = takes is Takes.TEXTS or numbers.isna().any()
        columns[name] = rows[name] if is_text else numbers.astype(int) if is_whole else numbers
    return pd.DataFrame(columns), []


def constant_guesses(answers: pd.DataFrame, metric: Metric, count: int) -> dict[str, Any]:
    """Values of the sample submission for each column: valid, but uninformative."""
    columns = {}
    for name, column in answers.items():
        guess = metric.constant_guess(column)
        if metric.takes is not Takes.PROBABILITIES:  # those sum to 1
            guess = [float(f"{value:.6g}") if isinstance(value, float) else value for value in guess]
        columns[str(name)] = np.resize(guess, count)
    return columns


def placeholder_answers(answers: pd.DataFrame, takes: Takes, count: int) -> dict[str, Any]:
    """Placeholder labels: all known labels of each column in turn, texts first, because they define valid values."""
    if takes is Takes.PROBABILITIES:
        one_hot = np.eye(len(answers.columns), dtype=int)[np.arange(count) % len(answers.columns)]
        return dict(zip(answers.columns, one_hot.T, strict=True))
    columns = {}
    for name, column in answers.items():
        is_number = pd.to_numeric(values := pd.Series(column.unique()), errors="coerce").notna()
        columns[str(name)] = np.resize(values[np.argsort(is_number, kind="stable")], count)
    return columns
