import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.metrics

from trl_mle.competitions.metrics import (
    METRICS,
    Metric,
    accuracy,
    find_metric,
    log_loss,
    mean_columnwise_rmsle,
    mean_columnwise_roc_auc,
    pearson_correlation,
    quadratic_weighted_kappa,
    rmse,
    roc_auc,
    word_level_jaccard,
)


def _column(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"y": values}, dtype=float)


def test_log_loss_by_hand():
    truth = pd.DataFrame([[1, 0], [0, 1]], columns=["a", "b"])
    guess = pd.DataFrame([[0.5, 0.5], [0.75, 0.25]], columns=["a", "b"])
    assert log_loss(truth, guess) == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert log_loss(truth, 1 - truth.astype(float)) == pytest.approx(36.0437, abs=1e-4)


def test_log_loss_equals_scikit_learns():
    random = np.random.RandomState(0)
    truth = pd.DataFrame(np.eye(4)[random.randint(0, 4, 50)])
    guess = pd.DataFrame(random.dirichlet([0.05] * 4, 50))
    assert log_loss(truth, guess) == pytest.approx(sklearn.metrics.log_loss(truth, guess))


@pytest.mark.parametrize(
    ("total", "valid"), [(1 + 1e-5, True), (1 - 1e-5, True), (1 + 1.2e-5, False), (0.9999, False)]
)
def test_log_loss_wants_rows_that_sum_to_one(total, valid):
    truth = pd.DataFrame([[1, 0]])
    guess = pd.DataFrame([[0.5, total - 0.5]])
    if valid:
        assert log_loss(truth, guess) == pytest.approx(math.log(2))
    else:
        with pytest.raises(ValueError, match="must sum to 1"):
            log_loss(truth, guess)


def test_roc_auc_by_hand():
    # Three of the four pairs of a 1 and a 0 are in order; a tie counts half.
    assert roc_auc(_column(0, 0, 1, 1), _column(0.1, 0.4, 0.35, 0.8)) == 0.75
    assert roc_auc(_column(0, 1), _column(0.3, 0.3)) == 0.5


def test_rmse_by_hand():
    assert rmse(_column(1, 2, 3), _column(1, 2, 6)) == pytest.approx(math.sqrt(3))


def test_accuracy_by_hand():
    assert accuracy(_column(0, 1, 2, 2), _column(0, 1, 1, 7)) == 0.5


def test_accuracy_of_texts():
    assert accuracy(pd.DataFrame({"y": ["a", "b"]}), pd.DataFrame({"y": ["a", "c"]})) == 0.5


def test_mean_columnwise_roc_auc_by_hand():
    truth = pd.DataFrame({"a": [0.0, 1, 0, 1], "b": [1.0, 0, 0, 0]})
    # Three of four pairs are in order in "a", all three in "b".
    guess = pd.DataFrame({"a": [0.1, 0.35, 0.4, 0.8], "b": [9.0, -1, 2, 3]})
    assert mean_columnwise_roc_auc(truth, guess) == (0.75 + 1) / 2


def test_quadratic_weighted_kappa_by_hand():
    # Squared errors are 0, 0, 1, and between all pairs of rows 0, 1, 1; 1, 0, 0; 4, 1, 1: 1 - (1/3) / (9/9).
    assert quadratic_weighted_kappa(_column(1, 2, 3), _column(1, 2, 2)) == pytest.approx(2 / 3)
    # The labels present are 1, 2 and 60: only their rank counts.
    assert quadratic_weighted_kappa(_column(1, 2, 60), _column(1, 2, 2)) == pytest.approx(2 / 3)
    assert quadratic_weighted_kappa(_column(1, 2), _column(2, 1)) == -1


def test_pearson_correlation_by_hand():
    # Deviations -1, 0, 1 and -1, 1, 0: covariance 1, variances 2 and 2.
    assert pearson_correlation(_column(1, 2, 3), _column(0, 2, 1)) == pytest.approx(0.5)
    assert pearson_correlation(_column(1, 2, 3), _column(-3, -5, -7)) == pytest.approx(-1)
    assert pearson_correlation(_column(1, 2, 3), _column(1e300, 2e300, 3e300)) == pytest.approx(1)
    assert math.isnan(pearson_correlation(_column(1, 2, 3), _column(0.1, 0.1, 0.1)))


def test_mean_columnwise_rmsle_by_hand():
    truth = pd.DataFrame({"a": [0.0, 0.0], "b": [1.0, 1.0]})
    guess = pd.DataFrame({"a": [math.e - 1, 0.0], "b": [1.0, 2 * math.e**2 - 1]})
    # The logarithms of "a" are off by 1 and 0, those of "b" by 0 and 2.
    assert mean_columnwise_rmsle(truth, guess) == pytest.approx((math.sqrt(1 / 2) + math.sqrt(4 / 2)) / 2)
    with pytest.raises(ValueError, match="greater than -1"):
        mean_columnwise_rmsle(truth, truth - 1)


def test_word_level_jaccard_by_hand():
    truth = pd.DataFrame({"y": ["My  dog\nis happy", "sad", ""]})
    # Two of five words are shared; none; none.
    guess = pd.DataFrame({"y": ["my DOG runs", "", "x"]})
    assert word_level_jaccard(truth, guess) == pytest.approx(2 / 5 / 3)
    with pytest.raises(ValueError, match="two empty texts"):
        word_level_jaccard(truth, pd.DataFrame({"y": ["my", "sad", " "]}))


def _random_columns(rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Labels with at least two values, and predictions with ties."""
    rows = rng.randint(3, 30)
    labels = rng.randint(0, rng.randint(2, 6), rows)
    labels[:2] = 0, 1
    return rng.permutation(labels), rng.randint(0, 7, rows)


@pytest.mark.parametrize(
    ("metric", "reference"),
    [
        (
            lambda y, p: roc_auc(_column(*(y > 0)), _column(*(p / 7))),
            lambda y, p: sklearn.metrics.roc_auc_score(y > 0, p),
        ),
        (
            lambda y, p: quadratic_weighted_kappa(_column(*y), _column(*(p**3 - 1))),
            lambda y, p: sklearn.metrics.cohen_kappa_score(y, p**3 - 1, weights="quadratic"),
        ),
        (
            lambda y, p: pearson_correlation(_column(*y), _column(*p[1:], 9)),
            lambda y, p: scipy.stats.pearsonr(y, np.append(p[1:], 9)).statistic,
        ),
        (
            lambda y, p: mean_columnwise_rmsle(pd.DataFrame({0: y, 1: p}), pd.DataFrame({0: p - 0.5, 1: y})),
            lambda y, p: (
                (
                    sklearn.metrics.root_mean_squared_log_error(y, p - 0.5)
                    + sklearn.metrics.root_mean_squared_log_error(p, y)
                )
                / 2
            ),
        ),
        (
            lambda y, p: mean_columnwise_roc_auc(pd.DataFrame({0: y > 0, 1: y == 0}) * 1, pd.DataFrame({0: p, 1: p})),
            lambda y, p: sklearn.metrics.roc_auc_score(
                np.column_stack([y > 0, y == 0]), np.column_stack([p, p]), average="macro"
            ),
        ),
        (lambda y, p: accuracy(_column(*y), _column(*p)), lambda y, p: sklearn.metrics.accuracy_score(y, p)),
        (lambda y, p: rmse(_column(*y), _column(*p)), lambda y, p: math.sqrt(((y - p) ** 2).mean())),
    ],
    ids=["roc_auc", "kappa", "pearson", "rmsle", "columnwise_roc_auc", "accuracy", "rmse"],
)
def test_equal_to_scikit_learns_and_scipys(metric, reference):
    rng = np.random.RandomState(0)
    for _ in range(60):
        labels, predictions = _random_columns(rng)
        assert metric(labels, predictions) == pytest.approx(reference(labels, predictions), abs=1e-12)


def test_order_of_rows_changes_nothing():
    rng = np.random.RandomState(0)
    words = ["so", "happy", "sad", "So", "x y"]
    for name, metric in METRICS.items():
        for _ in range(20):
            labels, _ = _random_columns(rng)
            if name == "word_level_jaccard":
                truth, guess = (pd.DataFrame({"y": rng.choice(words, len(labels))}) for _ in range(2))
            elif name == "log_loss":
                truth = pd.DataFrame(np.eye(6)[labels])
                guess = pd.DataFrame(rng.dirichlet([0.3] * 6, len(labels)))
            else:
                truth = _column(*(labels > 0))
                guess = _column(
                    *(rng.randint(0, 2, len(labels)) if name != "pearson_correlation" else rng.rand(len(labels)))
                )
            order = rng.permutation(len(labels))
            expected = metric.score(truth, guess)
            assert metric.score(truth.iloc[order], guess.iloc[order]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["roc_auc", "rmse", "accuracy", "quadratic_weighted_kappa", "pearson_correlation"])
def test_metrics_of_one_column_refuse_more(name):
    table = pd.DataFrame({"a": [0.0, 1], "b": [1.0, 0]})
    with pytest.raises(ValueError, match="single target column"):
        METRICS[name].score(table, table)


def test_roc_auc_needs_both_classes():
    with pytest.raises(ValueError, match="undefined"):
        roc_auc(_column(1, 1), _column(0.2, 0.3))


def test_find_metric():
    assert find_metric("rmse") is METRICS["rmse"]
    assert find_metric("math.dist", higher_is_better=True) == Metric(math.dist, True, names="dist")
    own = find_metric("sklearn.metrics.log_loss", higher_is_better=False)
    assert (own.score, own.names) == (sklearn.metrics.log_loss, METRICS["log_loss"].names)


def test_directions():
    lower = {name for name, metric in METRICS.items() if not metric.higher_is_better}
    assert lower == {"log_loss", "rmse", "mean_columnwise_rmsle"}


@pytest.mark.parametrize("name", METRICS)
def test_the_best_score_is_that_of_the_answers(name):
    truth = pd.DataFrame({"a": [1.0, 0.0, 1.0], "b": [0.0, 1.0, 0.0]})
    if not name.startswith(("mean_columnwise_", "log_loss")):
        truth = truth[["a"]]
    if name == "word_level_jaccard":
        truth = truth.astype(str)
    metric = METRICS[name]
    assert metric.score(truth, truth) == pytest.approx(metric.best)
    assert metric.gain(metric.best) > metric.gain(metric.best - 0.1 if metric.higher_is_better else metric.best + 0.1)
