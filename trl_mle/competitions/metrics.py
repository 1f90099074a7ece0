"""
The metrics: scikit-learn's where it neither warns about odd predictions nor grows with the number of labels. Each
takes two tables of floats or texts, answers and predictions, and raises a `ValueError` if it cannot score the latter.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
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


Score = Callable[[pd.DataFrame, pd.DataFrame], float]


class Metric(NamedTuple):
    """The facts about a metric, for graders, prompts and `trl-mle new`; `score` takes answers and predictions."""

    score: Score
    higher_is_better: bool
    takes: Takes = Takes.NUMBERS
    best: float | None = None  # the best possible score, if known
    rule: str = ""  # what makes predictions invalid, as a sentence for prompts; labels have a rule of their own
    # Its value on a part of the rows where it is undefined, though not on all, see `Competition.grade`
    undefined: float | None = None
    # The best constant for a column of answers, or values in turn; by default the most frequent label, or the mean
    guess: Callable[[pd.Series], Any] | None = None

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
        if self.guess is not None:
            guess = self.guess(answers)
        else:
            has_mean = self.takes in (Takes.PROBABILITIES, Takes.SCORES, Takes.NUMBERS)
            guess = answers.mean() if has_mean else answers.mode()[0]
        return np.atleast_1d(guess).tolist()


def gain(score: float, higher_is_better: bool) -> float:
    """A score, or a difference of two, its sign flipped where lower is better: larger is better."""
    return score if higher_is_better else -score


def _are_both(truth: np.ndarray) -> None:
    if set(truth) != {0, 1}:
        raise ValueError("the metric is undefined unless the answers are both 0 and 1")


def _are_not_zero(truth: np.ndarray) -> None:
    if not truth.all():
        raise ValueError("the metric is undefined unless the answers are never 0")


def _vary(truth: np.ndarray) -> None:
    if truth.min() == truth.max():
        raise ValueError("the metric is undefined unless the answers are not all the same")


def _check_predictions(y_pred: pd.DataFrame, are_right: Callable[[pd.DataFrame], pd.DataFrame], needed: str) -> None:
    numbers = y_pred.select_dtypes("number")
    if len(wrong := np.argwhere(~are_right(numbers).to_numpy(bool))):
        row, column = wrong[0]
        value = numbers.to_numpy()[row, column]
        raise ValueError(f"every prediction must {needed}, but column {numbers.columns[column]!r} holds {value:.15g}")


def _check_probabilities(y_pred: pd.DataFrame) -> None:
    _check_predictions(y_pred, lambda numbers: (numbers >= 0) & (numbers <= 1), "lie in [0, 1]")


def check_row_sums(y_pred: pd.DataFrame, sums_to_one: np.ndarray) -> None:
    """Rejects predictions unless all rows sum to 1."""
    if not sums_to_one.all():
        row = int(np.argmin(sums_to_one))
        raise ValueError(
            f"the probabilities of each row must sum to 1, but in {(~sums_to_one).sum()} of {len(y_pred)} rows they "
            f"do not (id {y_pred.index[row]!r}: {y_pred.iloc[row].sum():.10g})"
        )


def _column(table: pd.DataFrame) -> np.ndarray:
    if table.shape[1] != 1:
        raise ValueError(f"the metric is one of a single target column, not of {table.shape[1]}")
    return table.iloc[:, 0].to_numpy()


def _scikit_learn(
    name: str,
    y_true: pd.DataFrame,
    y_pred: pd.DataFrame,
    check: Callable[[np.ndarray], None] | None = None,
    **options: Any,
) -> float:
    """A metric of scikit-learn's, of the only column, whose answers are checked."""
    truth, values = _column(y_true), _column(y_pred)
    if check is not None:
        check(truth)
    from sklearn import metrics  # here: it takes a second, and most commands score nothing

    return float(getattr(metrics, name)(truth, values, **options))


def _roc_auc(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Of predictions in [0, 1], as MLE-bench requires."""
    _check_probabilities(y_pred)
    return _scikit_learn("roc_auc_score", y_true, y_pred, _are_both)


def _columnwise(score: Score, y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    return float(np.mean([score(y_true[[name]], y_pred[[name]]) for name in y_true.columns]))


def _log_loss(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Of class probabilities. scikit-learn's warns about sums that this tolerance lets pass."""
    _check_probabilities(y_pred)
    check_row_sums(y_pred, np.isclose(y_pred.to_numpy().sum(axis=1), 1, atol=1e-6))
    eps = np.finfo(float).eps
    return float(-(y_true.to_numpy() * np.log(y_pred.to_numpy().clip(eps, 1 - eps))).sum(axis=1).mean())


def top_k_accuracy(k: int) -> Metric:
    """The share of rows whose label is among the `k` likeliest; the later of a tie counts first."""
    return Metric(partial(_top_k_accuracy, k), higher_is_better=True, takes=Takes.PROBABILITIES, best=1.0)


def _top_k_accuracy(k: int, y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    if y_true.shape[1] <= k:
        raise ValueError(f"with {y_true.shape[1]} labels, each is among the {k} likeliest")
    likeliest = y_pred.to_numpy().argsort(axis=1, kind="stable")[:, -k:]
    return float(np.take_along_axis(y_true.to_numpy(), likeliest, axis=1).sum(axis=1).mean())


def _label_codes(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Answers and predictions as ranks among the labels present in either."""
    # Beyond that, a float is a measurement, not a label
    _check_predictions(
        y_pred, lambda numbers: (numbers % 1 == 0) & (numbers.abs() <= 2**63), "be a whole number of at most 64 bits"
    )
    truth, labels = _column(y_true), _column(y_pred)
    codes = np.unique(np.concatenate([truth, labels]), return_inverse=True)[1]
    return codes[: len(truth)], codes[len(truth) :]


def _counts(score: Callable[..., Any], y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """A score of three counts for each label: how often it was right, is the answer, and was predicted."""
    truth, labels = _label_codes(y_true, y_pred)
    count = max(truth.max(), labels.max()) + 1
    return float(score(*(np.bincount(codes, minlength=count) for codes in (truth[truth == labels], truth, labels))))


def _mcc(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> float:
    """Matthews' correlation coefficient; 0 for constant predictions."""
    rows = true.sum()
    _vary(np.arange(len(true)).repeat(true))
    deviations = np.sqrt(float(rows**2 - true @ true) * float(rows**2 - predicted @ predicted))
    return (hits.sum() * rows - true @ predicted) / deviations if deviations else 0.0


def _quadratic_weighted_kappa(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """1 - E[(a - b)²] / E[(a - b')²] with the ranks a and b of a row's labels, and b' of another row's."""
    a, b = _label_codes(y_true, y_pred)
    _vary(np.concatenate([a, b]))
    return float(1 - ((a - b) ** 2).mean() / (a.var() + b.var() + (a.mean() - b.mean()) ** 2))


def _word_level_jaccard(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Mean over the rows of |A ∩ B| / |A ∪ B|, where A and B are the sets of the two texts' words in lower case."""
    similarities = []
    for row, texts in enumerate(zip(_column(y_true), _column(y_pred), strict=True)):
        a, b = (set(text.lower().split()) for text in texts)
        if not a | b:
            where = y_pred.index[row]
            raise ValueError(f"the similarity of two empty texts is undefined: predict a word for {where!r}")
        similarities.append(len(a & b) / len(a | b))
    return float(np.mean(similarities))


def _rmsle(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Root mean squared error of log(1 + x)."""
    _check_predictions(y_pred, lambda numbers: numbers > -1, "be greater than -1")
    return METRICS["rmse"].score(y_true.apply(np.log1p), y_pred.apply(np.log1p))


def _smape(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Mean of |a - b| / ((|a| + |b|) / 2), from 0 to 2; 0 where both are 0."""
    truth, values = _column(y_true), _column(y_pred)
    errors, sizes = np.abs(truth - values), np.abs(truth) / 2 + np.abs(values) / 2
    return float(np.divide(errors, sizes, out=np.zeros(len(truth)), where=sizes > 0).mean())


def _correlation(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    truth, values = _column(y_true), _column(y_pred)
    _vary(truth)
    if values.min() == values.max():
        raise ValueError("the correlation is undefined where all predictions are the same")
    return float(np.corrcoef(truth, values)[0, 1])


def _two_quantiles(answers: pd.Series) -> list[float]:
    low, high = answers.quantile([0.25, 0.75])
    return [low, high] if low < high else [answers.min(), answers.max()]


def pinball(quantile: float) -> Metric:
    """The pinball loss, least in expectation if predictions exceed the answers with this probability."""
    guess = partial(pd.Series.quantile, q=quantile)
    return Metric(partial(_scikit_learn, "mean_pinball_loss", alpha=quantile), False, best=0.0, guess=guess)


_larger = partial(Metric, higher_is_better=True, best=1.0)
_smaller = partial(Metric, higher_is_better=False, best=0.0)
_scores = partial(_larger, takes=Takes.SCORES)
_labels = partial(_larger, takes=Takes.LABELS)
# Constant predictions carry no information about the rows where a correlation is undefined
_correlations = partial(_larger, rule="Predictions must not be all the same.", undefined=0.0, guess=_two_quantiles)
METRICS: dict[str, Metric] = {
    "log_loss": _smaller(
        _log_loss, takes=Takes.PROBABILITIES, rule="Predictions lie in [0, 1] and sum to 1 in each row."
    ),
    "binary_log_loss": _smaller(
        partial(_scikit_learn, "log_loss", check=_are_both),
        takes=Takes.SCORES,
        rule="Predictions are probabilities of 1, in [0, 1].",
    ),
    "top_3_accuracy": top_k_accuracy(3),
    "top_5_accuracy": top_k_accuracy(5),
    "roc_auc": _scores(_roc_auc, rule="Predictions lie in [0, 1]."),
    "mean_columnwise_roc_auc": _scores(partial(_columnwise, partial(_scikit_learn, "roc_auc_score", check=_are_both))),
    "average_precision": _scores(partial(_scikit_learn, "average_precision_score", check=_are_both)),
    "accuracy": _labels(partial(_counts, lambda hits, true, predicted: hits.sum() / true.sum())),
    "balanced_accuracy": _labels(
        partial(_counts, lambda hits, true, predicted: (hits[true > 0] / true[true > 0]).mean())
    ),
    "f1": _larger(
        partial(_scikit_learn, "f1_score", check=_are_both),
        takes=Takes.ZEROS_AND_ONES,
        rule="Predictions are 0 or 1.",
        guess=lambda answers: 1,
    ),
    "f1_macro": _labels(partial(_counts, lambda hits, true, predicted: (2 * hits / (true + predicted)).mean())),
    "f1_weighted": _labels(
        partial(_counts, lambda hits, true, predicted: np.average(2 * hits / (true + predicted), weights=true))
    ),
    "mcc": _labels(partial(_counts, _mcc)),
    "quadratic_weighted_kappa": _labels(_quadratic_weighted_kappa),
    "word_level_jaccard": _larger(_word_level_jaccard, takes=Takes.TEXTS, rule="Predictions are texts."),
    "rmse": _smaller(partial(_scikit_learn, "root_mean_squared_error")),
    "rmsle": _smaller(
        _rmsle, rule="Predictions are greater than -1.", guess=lambda answers: np.expm1(np.log1p(answers).mean())
    ),
    "mae": _smaller(partial(_scikit_learn, "mean_absolute_error"), guess=pd.Series.median),
    "median_absolute_error": _smaller(partial(_scikit_learn, "median_absolute_error"), guess=pd.Series.median),
    "mape": _smaller(
        partial(_scikit_learn, "mean_absolute_percentage_error", check=_are_not_zero), guess=pd.Series.median
    ),
    "smape": _smaller(_smape, guess=pd.Series.median),
    "r2": _larger(partial(_scikit_learn, "r2_score", check=_vary)),
    "pinball_0.1": pinball(0.1),
    "pinball_0.5": pinball(0.5),
    "pinball_0.9": pinball(0.9),
    "pearson_correlation": _correlations(_correlation),
    "spearman_correlation": _correlations(lambda y_true, y_pred: _correlation(y_true.rank(), y_pred.rank())),
}
METRICS["mean_columnwise_rmsle"] = METRICS["rmsle"]._replace(score=partial(_columnwise, _rmsle))


def find_metric(name: str, higher_is_better: bool | None = None, takes: str | None = None) -> Metric:
    """
    Finds a metric: a key of `METRICS`, or `my_module.my_metric`, a function of two tables or a [`Metric`], in the
    current folder or on `PYTHONPATH`. Only a function needs `higher_is_better`, and may state what it `takes`
    (numbers by default). Raises `ValueError` if there is no such metric.
    """
    metric = METRICS.get(name)
    if metric is None:
        if "." not in name:
            hint = did_you_mean(name, METRICS) or f"take {', '.join(METRICS)}, or your own as my_module.my_metric"
            raise ValueError(f"unknown metric {name!r}; {hint}")
        metric = import_named("metric", name)
    if isinstance(metric, Metric):
        if higher_is_better is not None or takes is not None:
            raise ValueError(f"higher_is_better and takes go with a function of your own; {name!r} knows its own")
        return metric
    if not isinstance(higher_is_better, bool):
        raise ValueError(f"the metric {name!r} needs higher_is_better, true or false, because it is a function")
    return Metric(metric, higher_is_better, Takes(takes or Takes.NUMBERS))
