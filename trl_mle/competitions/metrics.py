"""
The metrics. Each takes answers and predictions as tables with the same rows and columns, of floats, or of texts if the
answers are texts. It rejects predictions that it cannot score with a `ValueError` that explains why.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from trl_mle.spelling import did_you_mean
from trl_mle.user_code import import_named


class Takes(StrEnum):
    """What a metric compares: the form of answers and predictions."""

    PROBABILITIES = "probabilities"  # a column for each label, of which one is right
    SCORES = "scores"  # answers are 0 and 1; predictions are larger where 1 is likelier
    ZEROS_AND_ONES = "zeros_and_ones"
    LABELS = "labels"  # whole numbers, or texts
    TEXTS = "texts"
    NUMBERS = "numbers"


ScoreOfTables = Callable[[pd.DataFrame, pd.DataFrame], float]
Guess = Callable[[pd.Series], Any]


def _mode(answers: pd.Series) -> Any:
    return answers.mode()[0]


_VOTED = (Takes.ZEROS_AND_ONES, Takes.LABELS, Takes.TEXTS)  # whose best constant is the most frequent answer


class Metric(NamedTuple):
    """
    The facts about a metric, for graders, prompts and `trl-mle new`. `score` is a function of the answers and the predictions;
    it raises a `ValueError` that explains why it cannot score predictions.
    """

    score: ScoreOfTables
    higher_is_better: bool
    takes: Takes = Takes.NUMBERS  # what it compares
    best: float | None = None  # the best possible score, if known
    # What makes predictions invalid, as a sentence for prompts, whatever the competition's description says: Kaggle's own
    # grader may have been more patient. Labels have a rule of their own, see `rule_for`
    rule: str = ""
    # Its value on a part of the rows where it is undefined for predictions that it can score on all, see `Competition.grade`
    undefined: float | None = None
    # The best constant for a column of answers, or several values in turn if predictions must not be constant. Defaults to the
    # most frequent label, or to the mean
    guess: Guess | None = None

    def gain(self, score: float) -> float:
        """The score with its sign flipped where lower is better, so that larger is better."""
        return gain(score, self.higher_is_better)

    def rule_for(self, labels: pd.DataFrame) -> str:
        """The rule, for answers such as these."""
        if self.takes is not Takes.LABELS:
            return self.rule
        are_numbers = all(is_numeric_dtype(kind) and not is_bool_dtype(kind) for kind in labels.dtypes)
        return "Predictions are whole numbers." if are_numbers else "Predictions are labels as in the training data."

    def constant_guess(self, answers: pd.Series) -> list[Any]:
        """The best constant for a column of answers, or the values to be repeated in turn."""
        guess = self.guess or (_mode if self.takes in _VOTED else pd.Series.mean)
        return np.atleast_1d(guess(answers)).tolist()


def gain(score: float, higher_is_better: bool) -> float:
    """A score, or a difference of two, its sign flipped where lower is better: larger is better."""
    return score if higher_is_better else -score


# Scores of tables, from scores of arrays


def _imported(module: str, name: str, *arrays: np.ndarray, **options: Any) -> Any:
    """Calls a function, which is imported first: scikit-learn takes a second, and most commands score nothing."""
    return getattr(import_module(module), name)(*arrays, **options)


average_precision_score = partial(_imported, "sklearn.metrics", "average_precision_score")
mean_absolute_error = partial(_imported, "sklearn.metrics", "mean_absolute_error")
mean_absolute_percentage_error = partial(_imported, "sklearn.metrics", "mean_absolute_percentage_error")
mean_pinball_loss = partial(_imported, "sklearn.metrics", "mean_pinball_loss")
median_absolute_error = partial(_imported, "sklearn.metrics", "median_absolute_error")
r2_score = partial(_imported, "sklearn.metrics", "r2_score")
rankdata = partial(_imported, "scipy.stats", "rankdata")
roc_auc_score = partial(_imported, "sklearn.metrics", "roc_auc_score")
root_mean_squared_error = partial(_imported, "sklearn.metrics", "root_mean_squared_error")


def _of_one_column(
    score: Callable[[np.ndarray, np.ndarray], float], y_true: pd.DataFrame, y_pred: pd.DataFrame
) -> float:
    return float(score(_only_column(y_true), _only_column(y_pred)))


def _columnwise(score: Callable[[np.ndarray, np.ndarray], float], y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    return float(np.mean([score(y_true[name].to_numpy(), y_pred[name].to_numpy()) for name in y_true.columns]))


def _of_labels(
    score: Callable[[np.ndarray, np.ndarray, np.ndarray], float], y_true: pd.DataFrame, y_pred: pd.DataFrame
) -> float:
    """
    From a score of three counts for each label: how often it was right, is the answer, and was predicted. scikit-learn's
    functions warn about predictions with many distinct labels, and the one for `mcc` makes a matrix of label by label.
    """
    truth, labels, count = _codes(y_true, y_pred)
    return float(score(*(np.bincount(codes, minlength=count) for codes in (truth[truth == labels], truth, labels))))


def _codes(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, int]:
    """Answers and predictions as ranks among the labels present in either, and the number of these."""
    _check_whole_numbers(y_pred)
    truth, labels = _only_column(y_true), _only_column(y_pred)
    known, codes = np.unique(np.concatenate([truth, labels]), return_inverse=True)
    return codes[: len(truth)], codes[len(truth) :], len(known)


# Probabilities and scores


def log_loss(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Multi-class log loss of class probabilities against one-hot answers."""
    truth, probabilities = y_true.to_numpy(), y_pred.to_numpy()
    _check_unit_interval(y_pred)
    sums = probabilities.sum(axis=1)
    check_row_sums(y_pred, np.isclose(sums, 1, atol=1e-6))
    # scikit-learn's `log_loss` clips alike, but warns about sums that the tolerance above lets pass.
    eps = np.finfo(float).eps
    return float(-(truth * np.log(probabilities.clip(eps, 1 - eps))).sum(axis=1).mean())


def _binary_log_loss(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """Log loss of the probability of 1."""
    _check_both_classes(truth)
    eps = np.finfo(float).eps
    return -np.log(np.where(truth == 1, probabilities, 1 - probabilities).clip(eps, 1 - eps)).mean()


def top_k_accuracy(k: int) -> Metric:
    """The share of rows whose label is among the `k` likeliest, of which there must be more; the later of a tie counts first."""
    return Metric(partial(_top_k_accuracy, k), higher_is_better=True, takes=Takes.PROBABILITIES, best=1.0)


def _top_k_accuracy(k: int, y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    if y_true.shape[1] <= k:
        raise ValueError(f"with {y_true.shape[1]} labels, each is among the {k} likeliest")
    # scikit-learn's `top_k_accuracy_score` is the same, but warns about many distinct labels
    likeliest = y_pred.to_numpy().argsort(axis=1, kind="stable")[:, -k:]
    return float(np.take_along_axis(y_true.to_numpy(), likeliest, axis=1).sum(axis=1).mean())


def roc_auc(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Area under the ROC curve of the one column, of scores in [0, 1]."""
    return _of_unit_interval(_area, y_true, y_pred)


def _of_unit_interval(
    score: Callable[[np.ndarray, np.ndarray], float], y_true: pd.DataFrame, y_pred: pd.DataFrame
) -> float:
    _check_unit_interval(y_pred)
    return _of_one_column(score, y_true, y_pred)


def _of_both_classes(score: Callable[[np.ndarray, np.ndarray], float], truth: np.ndarray, scores: np.ndarray) -> float:
    _check_both_classes(truth)
    return score(truth, scores)


_area = partial(_of_both_classes, roc_auc_score)


# Labels and texts


def _f1(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """For each label."""
    return 2 * hits / (true + predicted)


def _binary_f1(truth: np.ndarray, labels: np.ndarray) -> float:
    """The F1 of the label 1."""
    if wrong := set(np.unique(labels)) - {0, 1}:
        raise ValueError(f"every prediction must be 0 or 1, but some are {min(wrong):.15g}")
    _check_both_classes(truth)
    return 2 * (truth * labels).sum() / (truth.sum() + labels.sum())


def _mcc(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> float:
    """Matthews' correlation coefficient; 0 for constant predictions."""
    rows = true.sum()
    deviations = np.sqrt(rows**2 - true @ true), np.sqrt(rows**2 - predicted @ predicted)
    if not deviations[0]:
        raise ValueError("the correlation is undefined where all answers are the same")
    return (hits.sum() * rows - true @ predicted) / np.prod(deviations) if deviations[1] else 0.0


def quadratic_weighted_kappa(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """
    Cohen's kappa with quadratic weights: 1 - E[(a - b)²] / E[(a - b')²], where a and b are the ranks of a row's two
    labels among the labels present in either column, and b' that of another row.
    """
    a, b, count = _codes(y_true, y_pred)
    if count == 1:
        raise ValueError("kappa is undefined where all answers and predictions are the same")
    return float(1 - ((a - b) ** 2).mean() / (a.var() + b.var() + (a.mean() - b.mean()) ** 2))


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


# Numbers


def _rmsle(truth: np.ndarray, values: np.ndarray) -> float:
    """Root mean squared error of log(1 + x)."""
    if values.min() <= -1:
        raise ValueError(f"every prediction must be greater than -1 (log(1 + x)), but some are {values.min():.15g}")
    return root_mean_squared_error(np.log1p(truth), np.log1p(values))


def _mape(truth: np.ndarray, values: np.ndarray) -> float:
    if not truth.all():
        raise ValueError("the error in per cent is undefined where an answer is 0")
    return mean_absolute_percentage_error(truth, values)


def _smape(truth: np.ndarray, values: np.ndarray) -> float:
    """Mean of |a - b| / ((|a| + |b|) / 2), from 0 to 2; 0 where both are 0."""
    errors, sizes = np.abs(truth - values), np.abs(truth) / 2 + np.abs(values) / 2
    return np.divide(errors, sizes, out=np.zeros(len(truth)), where=sizes > 0).mean()


def _r2(truth: np.ndarray, values: np.ndarray) -> float:
    if truth.min() == truth.max():
        raise ValueError("R² is undefined where all answers are the same")
    return r2_score(truth, values)


def _correlation(truth: np.ndarray, values: np.ndarray) -> float:
    return np.clip(_direction(truth, "answers") @ _direction(values, "predictions"), -1, 1)


def _direction(values: np.ndarray, what: str) -> np.ndarray:
    """The deviations from the mean as a vector of length 1."""
    if values.min() == values.max():
        raise ValueError(f"the correlation is undefined where all {what} are the same")
    deviations = values / np.abs(values).max()  # so that sums and squares of huge values do not overflow
    deviations -= deviations.mean()
    return deviations / np.linalg.norm(deviations)


def pinball(quantile: float) -> Metric:
    """The pinball loss of a quantile: its expectation is least if predictions exceed the answers with this probability."""
    return Metric(
        partial(_of_one_column, partial(mean_pinball_loss, alpha=quantile)),
        higher_is_better=False,
        best=0.0,
        guess=partial(pd.Series.quantile, q=quantile),
    )


def _two_quantiles(answers: pd.Series) -> list[float]:
    low, high = answers.quantile([0.25, 0.75])
    return [low, high] if low < high else [answers.min(), answers.max()]


# Checks


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


def _check_both_classes(truth: np.ndarray) -> None:
    if set(np.unique(truth)) != {0, 1}:
        raise ValueError("the metric is undefined where the answers are not both 0 and 1")


def _check_unit_interval(y_pred: pd.DataFrame) -> None:
    values = y_pred.to_numpy()
    outside = (values < 0) | (values > 1)
    if outside.any():
        name, value = _first(y_pred, outside)
        raise ValueError(f"every prediction must lie in [0, 1], but column {name!r} holds {value}")


def _check_whole_numbers(y_pred: pd.DataFrame) -> None:
    numbers = y_pred.select_dtypes("number")
    # Beyond 64 bits, a float is a measurement, not a label
    wrong = ((numbers % 1 != 0) | (numbers.abs() > 2**63)).to_numpy()
    if wrong.any():
        name, value = _first(numbers, wrong)
        raise ValueError(f"column {name!r} must hold whole numbers of at most 64 bits, but holds {value}")


def _first(y_pred: pd.DataFrame, wrong: np.ndarray) -> tuple[str, str]:
    """The column and the value of the first invalid prediction."""
    row, column = np.argwhere(wrong)[0]
    return y_pred.columns[column], f"{y_pred.to_numpy()[row, column]:.15g}"


_larger = partial(Metric, higher_is_better=True, best=1.0)
_smaller = partial(Metric, higher_is_better=False, best=0.0)
METRICS = {
    "log_loss": _smaller(
        log_loss,
        takes=Takes.PROBABILITIES,
        rule="Predictions lie in [0, 1] and sum to 1 in each row.",
    ),
    "binary_log_loss": _smaller(
        partial(_of_unit_interval, _binary_log_loss),
        takes=Takes.SCORES,
        rule="Predictions are probabilities of 1, in [0, 1].",
    ),
    "top_3_accuracy": top_k_accuracy(3),
    "top_5_accuracy": top_k_accuracy(5),
    "roc_auc": _larger(roc_auc, takes=Takes.SCORES, rule="Predictions lie in [0, 1]."),
    "mean_columnwise_roc_auc": _larger(partial(_columnwise, _area), takes=Takes.SCORES),
    "average_precision": _larger(
        partial(_of_one_column, partial(_of_both_classes, average_precision_score)),
        takes=Takes.SCORES,
    ),
    "accuracy": _larger(
        partial(_of_labels, lambda hits, true, predicted: hits.sum() / true.sum()),
        takes=Takes.LABELS,
    ),
    "balanced_accuracy": _larger(
        partial(_of_labels, lambda hits, true, predicted: (hits[true > 0] / true[true > 0]).mean()),
        takes=Takes.LABELS,
    ),
    "f1": _larger(
        partial(_of_one_column, _binary_f1),
        takes=Takes.ZEROS_AND_ONES,
        rule="Predictions are 0 or 1.",
        guess=lambda answers: 1,
    ),
    "f1_macro": _larger(
        partial(_of_labels, lambda hits, true, predicted: _f1(hits, true, predicted).mean()),
        takes=Takes.LABELS,
    ),
    "f1_weighted": _larger(
        partial(_of_labels, lambda hits, true, predicted: np.average(_f1(hits, true, predicted), weights=true)),
        takes=Takes.LABELS,
    ),
    "mcc": _larger(partial(_of_labels, _mcc), takes=Takes.LABELS),
    "quadratic_weighted_kappa": _larger(quadratic_weighted_kappa, takes=Takes.LABELS),
    "word_level_jaccard": _larger(word_level_jaccard, takes=Takes.TEXTS, rule="Predictions are texts."),
    "rmse": _smaller(partial(_of_one_column, root_mean_squared_error)),
    "rmsle": _smaller(
        partial(_of_one_column, _rmsle),
        rule="Predictions are greater than -1.",
        guess=lambda answers: np.expm1(np.log1p(answers).mean()),
    ),
    "mae": _smaller(
        partial(_of_one_column, mean_absolute_error),
        guess=pd.Series.median,
    ),
    "median_absolute_error": _smaller(
        partial(_of_one_column, median_absolute_error),
        guess=pd.Series.median,
    ),
    "mape": _smaller(
        partial(_of_one_column, _mape),
        guess=pd.Series.median,
    ),
    "smape": _smaller(partial(_of_one_column, _smape), guess=pd.Series.median),
    "r2": _larger(partial(_of_one_column, _r2)),
    "pinball_0.1": pinball(0.1),
    "pinball_0.5": pinball(0.5),
    "pinball_0.9": pinball(0.9),
    "pearson_correlation": _larger(
        partial(_of_one_column, _correlation),
        rule="Predictions must not be all the same.",
        undefined=0.0,  # constant predictions carry no information about those rows
        guess=_two_quantiles,
    ),
    "spearman_correlation": _larger(
        partial(_of_one_column, lambda truth, values: _correlation(rankdata(truth), rankdata(values))),
        rule="Predictions must not be all the same.",
        undefined=0.0,
        guess=_two_quantiles,
    ),
}
METRICS["mean_columnwise_rmsle"] = METRICS["rmsle"]._replace(score=partial(_columnwise, _rmsle))


def find_metric(name: str, higher_is_better: bool | None = None, takes: str | None = None) -> Metric:
    """
    Finds a metric by its name: a key of `METRICS`, or `my_module.my_metric`, a function of the answers and the predictions
    or a [`Metric`], in a module in the current folder or on `PYTHONPATH`. A function needs `higher_is_better`, and may state
    what it `takes` (numbers by default); both are not allowed otherwise. Raises a `ValueError` that says what is wrong.
    """
    *module, attribute = name.split(".")
    is_own = bool(module) and all(part.isidentifier() for part in (*module, attribute))  # not pinball_0.1
    found = import_named("metric", name) if is_own else METRICS.get(name)
    if found is None:
        own = name.replace(":", ".") if ":" in name else "my_module.my_metric"
        hint = did_you_mean(name, METRICS) or f"known are {', '.join(METRICS)}, and your own as {own}"
        raise ValueError(f"unknown metric {name!r}; {hint}")
    if isinstance(found, Metric):
        if higher_is_better is not None or takes is not None:
            raise ValueError(f"higher_is_better and takes go with a function of your own; {name!r} knows its own")
        return found
    if not callable(found):
        raise ValueError(f"the metric {name!r} is not a function, but {found!r:.80}")
    if higher_is_better is None:
        raise ValueError(f"the metric {name!r} needs higher_is_better, true or false, because it is a function")
    if takes is not None and takes not in [*Takes]:
        raise ValueError(f"takes must be one of {', '.join(Takes)}, got {takes!r}")
    return Metric(found, higher_is_better, Takes(takes or Takes.NUMBERS))
