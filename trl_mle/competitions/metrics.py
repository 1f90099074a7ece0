"""The metrics. Each takes the answers and the predictions as numeric tables with the same rows and columns."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, root_mean_squared_error


class Metric(NamedTuple):
    """
    A function of the answers and the predictions, and which way is better.

    Args:
        score (`Callable[[DataFrame, DataFrame], float]`):
            The function. It raises a `ValueError` that says what is wrong with predictions it cannot score.
        higher_is_better (`bool`):
            Whether a larger score is better.
    """

    score: Callable[[pd.DataFrame, pd.DataFrame], float]
    higher_is_better: bool


def log_loss(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Multi-class log loss of class probabilities against one-hot answers."""
    truth, probabilities = y_true.to_numpy(), y_pred.to_numpy()
    _check_unit_interval(y_pred)
    sums = probabilities.sum(axis=1)
    wrong = ~np.isclose(sums, 1, atol=1e-6)
    if wrong.any():
        raise ValueError(
            f"the probabilities of each row must sum to 1, but in {wrong.sum()} of {len(sums)} rows they do not "
            f"(id {y_pred.index[wrong][0]!r}: {sums[wrong][0]:.6g})"
        )
    # scikit-learn's `log_loss` clips alike, but warns about sums that the tolerance above lets pass.
    eps = np.finfo(float).eps
    return float(-(truth * np.log(probabilities.clip(eps, 1 - eps))).sum(axis=1).mean())


def roc_auc(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Area under the ROC curve of the one column."""
    _check_unit_interval(y_pred)
    return float(roc_auc_score(y_true.iloc[:, 0], y_pred.iloc[:, 0]))


def rmse(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Root mean squared error of the one column."""
    return float(root_mean_squared_error(y_true.iloc[:, 0], y_pred.iloc[:, 0]))


def accuracy(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Share of rows whose label is right."""
    labels = y_pred.iloc[:, 0]
    fractional = labels[labels % 1 != 0]
    if len(fractional):
        raise ValueError(f"column {labels.name!r} must hold whole numbers, but holds {fractional.iloc[0]:.6g}")
    # scikit-learn's `accuracy_score` is the same mean, but warns about predictions with many distinct labels.
    return float((y_true.iloc[:, 0] == labels).mean())


def _check_unit_interval(y_pred: pd.DataFrame) -> None:
    values = y_pred.to_numpy()
    outside = (values < 0) | (values > 1)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"every prediction must lie in [0, 1], but column {y_pred.columns[column]!r} holds {values[row, column]:.6g}"
        )


METRICS = {
    "log_loss": Metric(log_loss, higher_is_better=False),
    "roc_auc": Metric(roc_auc, higher_is_better=True),
    "rmse": Metric(rmse, higher_is_better=False),
    "accuracy": Metric(accuracy, higher_is_better=True),
}
