"""
The metrics. Each takes answers and predictions as tables with the same rows and columns, of floats, or of texts if the
answers are texts. It rejects predictions that it cannot score with a `ValueError` that explains why.
"""

import importlib
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error

from trl_mle.spelling import did_you_mean


class Metric(NamedTuple):
    """
    The facts about a metric, for graders, prompts and the analysis of programs.

    Args:
        score (`Callable[[DataFrame, DataFrame], float]`):
            A function of the answers and the predictions. Raises a `ValueError` that explains why it cannot score
            predictions.
        higher_is_better (`bool`):
            Whether a larger score is better.
        best (`float`, *optional*):
            The best possible score; `None` if unknown.
        rule (`str`, *optional*, defaults to `""`):
            What makes predictions invalid, as a sentence for prompts, whatever the competition's description says: Kaggle's
            own grader may have been more patient.
        text_rule (`str`, *optional*):
            The same if the answers are texts; defaults to `rule`.
        names (`str`, *optional*, defaults to `""`):
            Names of the metric in programs, as a regular expression: a variable, the function called or the `scoring`
            argument.
        undefined (`float`, *optional*):
            Value on a part of the rows where it is undefined for predictions that it can score on all rows, see
            [`Competition.grade`].
    """

    score: Callable[[pd.DataFrame, pd.DataFrame], float]
    higher_is_better: bool
    best: float | None = None
    rule: str = ""
    text_rule: str | None = None
    names: str = ""
    undefined: float | None = None

    def gain(self, score: float) -> float:
        """The score with its sign flipped where lower is better, so that larger is better."""
        return gain(score, self.higher_is_better)


def gain(score: float, higher_is_better: bool) -> float:
    """A score, or a difference of two, its sign flipped where lower is better: larger is better."""
    return score if higher_is_better else -score


def log_loss(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Multi-class log loss of class probabilities against one-hot answers."""
    truth, probabilities = y_true.to_numpy(), y_pred.to_numpy()
    _check_unit_interval(y_pred)
    sums = probabilities.sum(axis=1)
    check_row_sums(y_pred, np.isclose(sums, 1, atol=1e-6))
    # scikit-learn's `log_loss` clips alike, but warns about sums that the tolerance above lets pass.
    eps = np.finfo(float).eps
    return float(-(truth * np.log(probabilities.clip(eps, 1 - eps))).sum(axis=1).mean())


def roc_auc(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Area under the ROC curve of the one column, of scores in [0, 1]."""
    _check_unit_interval(y_pred)
    return _area(_only_column(y_true), _only_column(y_pred))


def mean_columnwise_roc_auc(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Mean, over the columns, of the area under the ROC curve; any finite scores will do."""
    return float(np.mean([_area(y_true[name], y_pred[name]) for name in y_true.columns]))


def quadratic_weighted_kappa(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """
    Cohen's kappa with quadratic weights: 1 - E[(a - b)²] / E[(a - b')²], where a and b are the ranks of a row's two
    labels among the labels present in either column, and b' that of another row.
    """
    _check_whole_numbers(y_pred)
    truth, labels = _only_column(y_true), _only_column(y_pred)
    _, ranks = np.unique(np.concatenate([truth, labels]), return_inverse=True)
    a, b = ranks[: len(truth)], ranks[len(truth) :]
    return float(1 - ((a - b) ** 2).mean() / (a.var() + b.var() + (a.mean() - b.mean()) ** 2))


def pearson_correlation(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Pearson's correlation of the one column; NaN if either side is constant."""
    a, b = _directions(_only_column(y_true)), _directions(_only_column(y_pred))
    return float(np.clip(a @ b, -1, 1))


def mean_columnwise_rmsle(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Mean, over the columns, of the root mean squared error of log(1 + x)."""
    impossible = y_pred.to_numpy() <= -1
    if impossible.any():
        name, value = _first(y_pred, impossible)
        raise ValueError(f"every prediction must be greater than -1 (log(1 + x)), but column {name!r} holds {value}")
    return float(root_mean_squared_error(np.log1p(y_true), np.log1p(y_pred)))


def rmse(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Root mean squared error of the one column."""
    return float(root_mean_squared_error(_only_column(y_true), _only_column(y_pred)))


def accuracy(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Share of rows whose label, a whole number or a text, is right."""
    _check_whole_numbers(y_pred)
    # scikit-learn's `accuracy_score` is the same mean, but warns about predictions with many distinct labels.
    return float((_only_column(y_true) == _only_column(y_pred)).mean())


def word_level_jaccard(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Mean over the rows of |A ∩ B| / |A ∪ B|, where A and B are the sets of the two texts' words in lower case."""
    similarities = []
    for row, (truth, text) in enumerate(zip(_only_column(y_true), _only_column(y_pred), strict=True)):
        a, b = set(truth.lower().split()), set(text.lower().split())
        if not a | b:
            raise ValueError(
                f"the similarity of two empty texts is undefined: predict a word for {y_pred.index[row]!r}"
            )
        similarities.append(len(a & b) / len(a | b))
    return float(np.mean(similarities))


def check_row_sums(y_pred: pd.DataFrame, sums_to_one: np.ndarray) -> None:
    """Rejects predictions with rows that do not sum to 1, according to `sums_to_one`."""
    if not sums_to_one.all():
        row = int(np.argmin(sums_to_one))
        raise ValueError(
            f"the probabilities of each row must sum to 1, but in {(~sums_to_one).sum()} of {len(y_pred)} rows they do "
            f"not (id {y_pred.index[row]!r}: {y_pred.iloc[row].sum():.10g})"
        )


def _only_column(table: pd.DataFrame) -> np.ndarray:
    if table.shape[1] != 1:
        raise ValueError(f"the metric is one of a single target column, not of {table.shape[1]}")
    return table.iloc[:, 0].to_numpy()


def _area(truth: np.ndarray | pd.Series, scores: np.ndarray | pd.Series) -> float:
    """The share of pairs of a 1 and a 0 whose scores are in order; a tie counts half."""
    truth, scores = np.asarray(truth), np.asarray(scores)
    ones, zeros = np.sort(scores[truth == 1]), np.sort(scores[truth == 0])
    if not (len(ones) and len(zeros) and len(ones) + len(zeros) == len(truth)):
        raise ValueError("ROC AUC is undefined where the answers are not both 0 and 1")
    lower, not_higher = np.searchsorted(zeros, ones, "left"), np.searchsorted(zeros, ones, "right")
    return float((lower.sum() + not_higher.sum()) / 2 / len(ones) / len(zeros))


def _directions(values: np.ndarray) -> np.ndarray:
    """The deviations from the mean as a vector of length 1."""
    if (values == values[:1]).all():
        return np.full(len(values), np.nan)
    deviations = values - values.mean()
    deviations /= np.abs(deviations).max()  # so that squares of huge values do not overflow
    return deviations / np.linalg.norm(deviations)


def _check_unit_interval(y_pred: pd.DataFrame) -> None:
    values = y_pred.to_numpy()
    outside = (values < 0) | (values > 1)
    if outside.any():
        name, value = _first(y_pred, outside)
        raise ValueError(f"every prediction must lie in [0, 1], but column {name!r} holds {value}")


def _check_whole_numbers(y_pred: pd.DataFrame) -> None:
    numbers = y_pred.select_dtypes("number")
    # Beyond 64 bits, scikit-learn treats floats as measurements, not as labels
    wrong = ((numbers % 1 != 0) | (numbers.abs() > 2**63)).to_numpy()
    if wrong.any():
        name, value = _first(numbers, wrong)
        raise ValueError(f"column {name!r} must hold whole numbers of at most 64 bits, but holds {value}")


def _first(y_pred: pd.DataFrame, wrong: np.ndarray) -> tuple[str, str]:
    """The column and the value of the first invalid prediction."""
    row, column = np.argwhere(wrong)[0]
    return y_pred.columns[column], f"{y_pred.to_numpy()[row, column]:.15g}"


LABELS = "Predictions are labels as in the training data."  # where these are texts
METRICS = {
    "log_loss": Metric(
        log_loss,
        higher_is_better=False,
        best=0.0,
        rule="Predictions lie in [0, 1] and sum to 1 in each row.",
        names=r"(?<!neg_)log_?loss",
    ),
    "roc_auc": Metric(
        roc_auc,
        higher_is_better=True,
        best=1.0,
        rule="Predictions lie in [0, 1].",
        names=r"(?<!pr_)auc",
    ),
    "mean_columnwise_roc_auc": Metric(
        mean_columnwise_roc_auc,
        higher_is_better=True,
        best=1.0,
        names=r"(?<!pr_)auc",
    ),
    "quadratic_weighted_kappa": Metric(
        quadratic_weighted_kappa,
        higher_is_better=True,
        best=1.0,
        rule="Predictions are whole numbers.",
        text_rule=LABELS,
        names=r"kappa|qwk",
    ),
    "pearson_correlation": Metric(
        pearson_correlation,
        higher_is_better=True,
        best=1.0,
        rule="Predictions must not be all the same.",
        names=r"pearson|corr",
        undefined=0.0,  # constant predictions carry no information about those rows
    ),
    "mean_columnwise_rmsle": Metric(
        mean_columnwise_rmsle,
        higher_is_better=False,
        best=0.0,
        rule="Predictions are greater than -1.",
        names=r"rmsle|(?<!neg_)root_mean_squared_log_error",
    ),
    "rmse": Metric(
        rmse,
        higher_is_better=False,
        best=0.0,
        names=r"rmse|(?<!neg_)root_mean_squared_error",
    ),
    "accuracy": Metric(
        accuracy,
        higher_is_better=True,
        best=1.0,
        rule="Predictions are whole numbers.",
        text_rule=LABELS,
        names=r"(?<![a-z])(?<!balanced_)acc(uracy)?(?![a-z])",
    ),
    "word_level_jaccard": Metric(
        word_level_jaccard,
        higher_is_better=True,
        best=1.0,
        rule="Predictions are texts.",
        names=r"jaccard",
    ),
}


def find_metric(name: str, higher_is_better: bool | None = None) -> Metric:
    """
    Finds a metric by its name.

    Args:
        name (`str`):
            A key of `METRICS`, or the dotted path of a function, `package.module.function`.
        higher_is_better (`bool`, *optional*):
            Whether a larger score is better; required for a dotted path, and not allowed otherwise.

    Returns:
        [`Metric`]: The metric.

    Raises:
        `ValueError`: The metric does not exist, or `higher_is_better` is missing or not allowed.
    """
    module, _, function = name.rpartition(".")
    if not module:
        if name not in METRICS:
            known = f"known are {', '.join(METRICS)}, and functions by their dotted paths"
            raise ValueError(f"unknown metric {name!r}; {did_you_mean(name, METRICS) or known}")
        if higher_is_better is not None:
            raise ValueError(f"higher_is_better goes with a function given by its dotted path; {name!r} knows its own")
        return METRICS[name]
    if higher_is_better is None:
        raise ValueError(f"beside the metric {name!r} it needs higher_is_better: true or false")
    try:
        score = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the metric {name!r} cannot be imported: {error}") from error
    if not callable(score):
        raise ValueError(f"the metric {name!r} is no function")
    namesake = METRICS.get(function)
    return Metric(score, higher_is_better, names=namesake.names if namesake is not None else re.escape(function))
