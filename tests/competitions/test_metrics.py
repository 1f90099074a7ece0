import math
import pickle
import re
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.metrics
from support.labels import draw, table

from trl_mle.competitions.metrics import METRICS, Metric, Takes, find_metric, top_k_accuracy
from trl_mle.competitions.own import new_competition


def _column(*values: float | str) -> pd.DataFrame:
    return pd.DataFrame({"y": values}).astype(str if isinstance(values[0], str) else float)


def score(name: str, truth: pd.DataFrame, predictions: pd.DataFrame) -> float:
    return METRICS[name].score(truth, predictions)


def test_log_loss_by_hand():
    truth = pd.DataFrame([[1, 0], [0, 1]], columns=["a", "b"])
    guess = pd.DataFrame([[0.5, 0.5], [0.75, 0.25]], columns=["a", "b"])
    assert score("log_loss", truth, guess) == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert score("log_loss", truth, 1 - truth.astype(float)) == pytest.approx(36.0437, abs=1e-4)


def test_log_loss_wants_rows_that_sum_to_one():
    truth = pd.DataFrame([[1, 0]])
    for total in (1 + 1e-5, 1 - 1e-5):
        assert score("log_loss", truth, pd.DataFrame([[0.5, total - 0.5]])) == pytest.approx(math.log(2))
    for total in (1 + 1.2e-5, 0.9999):
        with pytest.raises(ValueError, match="must sum to 1"):
            score("log_loss", truth, pd.DataFrame([[0.5, total - 0.5]]))


def test_top_k_accuracy_by_hand():
    truth = pd.DataFrame(np.eye(4))
    guess = pd.DataFrame([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.2, 0.2], [0.0, 0.9, 0.1, 0.0]])
    assert top_k_accuracy(2).score(truth, guess) == 0.5
    with pytest.raises(ValueError, match="each is among the 4 likeliest"):
        top_k_accuracy(4).score(truth, guess)


BY_HAND = [
    # Three of the four pairs of a 1 and a 0 are in order; a tie counts half
    ("roc_auc", (0, 0, 1, 1), (0.1, 0.4, 0.35, 0.8), 0.75),
    ("roc_auc", (0, 1), (0.3, 0.3), 0.5),
    ("binary_log_loss", (1, 0, 1), (0.5, 0.25, 0), (math.log(2) + math.log(4 / 3) + 36.0437) / 3),
    ("f1", (0, 1), (0, 0), 0),
    ("mcc", (0, 1), (1, 1), 0),
    # The labels present are 1, 2 and 60: only their rank counts
    ("quadratic_weighted_kappa", (1, 2, 60), (1, 2, 2), 2 / 3),
    # Two of five words are shared; none; none
    ("word_level_jaccard", ("My  dog\nis happy", "sad", ""), ("my DOG runs", "", "x"), 2 / 5 / 3),
    ("smape", (0, 2, 2), (0, -2, 6), (0 + 2 + 1) / 3),
    ("pinball_0.9", (0, 0), (-1, -1), 0.9),
    ("spearman_correlation", (1, 2, 3), (0, 1e9, 1), 0.5),
]


@pytest.mark.parametrize(("name", "truth", "predictions", "expected"), BY_HAND)
def test_by_hand(name, truth, predictions, expected):
    assert score(name, _column(*truth), _column(*predictions)) == pytest.approx(expected, abs=1e-4)


def _top(k):
    return lambda y, p: sklearn.metrics.top_k_accuracy_score(y.argmax(axis=1), p, k=k, labels=range(7))


# Of arrays of the only column, or of all columns
REFERENCES = {
    "log_loss": sklearn.metrics.log_loss,
    "binary_log_loss": sklearn.metrics.log_loss,
    "top_3_accuracy": _top(3),
    "top_5_accuracy": _top(5),
    "roc_auc": sklearn.metrics.roc_auc_score,
    "mean_columnwise_roc_auc": sklearn.metrics.roc_auc_score,
    "average_precision": sklearn.metrics.average_precision_score,
    "accuracy": sklearn.metrics.accuracy_score,
    "balanced_accuracy": sklearn.metrics.balanced_accuracy_score,
    "f1": sklearn.metrics.f1_score,
    "f1_macro": partial(sklearn.metrics.f1_score, average="macro"),
    "f1_weighted": partial(sklearn.metrics.f1_score, average="weighted"),
    "mcc": sklearn.metrics.matthews_corrcoef,
    "quadratic_weighted_kappa": partial(sklearn.metrics.cohen_kappa_score, weights="quadratic"),
    "rmse": lambda y, p: math.sqrt(((y - p) ** 2).mean()),
    "rmsle": sklearn.metrics.root_mean_squared_log_error,
    "mean_columnwise_rmsle": sklearn.metrics.root_mean_squared_log_error,
    "mae": sklearn.metrics.mean_absolute_error,
    "median_absolute_error": sklearn.metrics.median_absolute_error,
    "mape": sklearn.metrics.mean_absolute_percentage_error,
    "r2": sklearn.metrics.r2_score,
    "pinball_0.1": partial(sklearn.metrics.mean_pinball_loss, alpha=0.1),
    "pinball_0.9": partial(sklearn.metrics.mean_pinball_loss, alpha=0.9),
    "pearson_correlation": lambda y, p: scipy.stats.pearsonr(y, p).statistic,
    "spearman_correlation": lambda y, p: scipy.stats.spearmanr(y, p).statistic,
}


@pytest.mark.parametrize("name", METRICS)
def test_order_changes_nothing_and_the_answers_have_the_best_score(name):
    rng, metric = np.random.RandomState(0), METRICS[name]
    for _ in range(10):
        truth, predictions = draw(metric.takes, rng)
        order, value, best = rng.permutation(len(truth)), metric.score(truth, predictions), metric.score(truth, truth)
        assert metric.score(truth.iloc[order], predictions.iloc[order]) == pytest.approx(value, abs=1e-12)
        assert best == pytest.approx(metric.best, abs=1e-12)
        assert metric.gain(best) >= metric.gain(value)
    assert metric.gain(metric.best) > metric.gain(metric.best - 0.1 if metric.higher_is_better else metric.best + 0.1)


@pytest.mark.filterwarnings("ignore::UserWarning")  # scikit-learn's, of many labels
@pytest.mark.parametrize("name", REFERENCES)
def test_equal_to_scikit_learns_and_scipys(name):
    rng = np.random.RandomState(0)
    for _ in range(20):
        truth, predictions = draw(METRICS[name].takes, rng)
        arrays = [t.to_numpy().squeeze() for t in (truth, predictions)]
        assert score(name, truth, predictions) == pytest.approx(REFERENCES[name](*arrays), abs=1e-12)


HOSTILE = {
    "constant": lambda p: np.full(len(p), p.iloc[0]),
    "zero": lambda p: np.zeros(len(p)),
    "huge": lambda p: np.resize([1.7e308, -1.7e308], len(p)),
    "below -1": lambda p: np.full(len(p), -1.5),
    "classes that do not occur": lambda p: 1000 + np.arange(len(p)),
    "inf": lambda p: np.full(len(p), np.inf),
    "nan": lambda p: np.full(len(p), np.nan),
    "texts": lambda p: np.array([f"no {i}" for i in range(len(p))]),
    "nothing": lambda p: np.full(len(p), ""),
}


@pytest.mark.parametrize("name", METRICS)
def test_hostile_predictions_are_scored_or_invalid_in_one_line(name, tmp_path):
    table(name).to_csv(tmp_path / "table.csv", index=False)
    comp = new_competition(tmp_path / "table.csv", ["target"], name, tmp_path / "own")
    for holdout in (0.0, 0.5):
        comp = replace(comp, holdout=holdout)
        for what, change in HOSTILE.items():
            sample = pd.read_csv(comp.sample_submission)
            for column in comp.target_columns:
                sample[column] = change(sample[column])
            with warnings.catch_warnings(action="error"):
                found = comp.grade(sample.to_csv(index=False).encode())
            if found.valid:
                assert math.isfinite(found.value), what
                assert comp.scoring.gain(found.value) <= comp.scoring.gain(comp.scoring.best), what
            else:
                assert found.error, what
                assert "\n" not in found.error


def test_a_program_cannot_make_the_grader_slow_or_large():
    """100,000 labels: a matrix of all pairs of them would take 80 GB."""
    truth, predictions = _column(*(np.arange(100_000) % 3)), _column(*np.arange(100_000))
    for name, metric in METRICS.items():
        if metric.takes is Takes.LABELS:
            assert score(name, truth, predictions) == pytest.approx(0, abs=0.01)


def test_metrics_of_one_column_refuse_more():
    for name, metric in METRICS.items():
        if metric.takes is not Takes.PROBABILITIES and "columnwise" not in name:
            two = pd.concat([draw(metric.takes, np.random.RandomState(0))[0]] * 2, axis=1)
            with pytest.raises(ValueError, match="single target column"):
                metric.score(two, two)


@pytest.mark.parametrize(
    ("name", "truth", "predictions", "message"),
    [
        ("roc_auc", (1, 1), (0.2, 0.3), "undefined unless the answers are both 0 and 1"),
        ("roc_auc", (0, 1), (1.5, 0), r"must lie in \[0, 1\], but column 'y' holds 1.5"),
        ("rmsle", (0, 1), (0, -1), "must be greater than -1, but column 'y' holds -1"),
        ("pearson_correlation", (1, 2), (3, 3), "undefined where all predictions are the same"),
        ("word_level_jaccard", ("a", ""), ("a", " "), "predict a word for 1"),
    ],
)
def test_what_cannot_be_scored(name, truth, predictions, message):
    with pytest.raises(ValueError, match=message):
        score(name, _column(*truth), _column(*predictions))


def test_constant_guesses():
    """No other constant scores better, on these answers."""
    rng = np.random.RandomState(0)
    for name, metric in METRICS.items():
        truth, _ = draw(metric.takes, rng, 40)
        if metric.takes is not Takes.NUMBERS or name.endswith(("_correlation", "mape")):
            continue
        [guess] = metric.constant_guess(truth["y"])
        others = np.quantile(truth["y"], np.linspace(0, 1, 40))
        if name == "median_absolute_error":  # the median is near the best
            others = [truth["y"].min(), truth["y"].max()]
        gains = [metric.gain(metric.score(truth, truth * 0 + value)) for value in (guess, *others)]
        assert gains[0] >= max(gains) - 1e-9, name
    assert METRICS["f1"].constant_guess(pd.Series([0, 0, 1])) == [1]
    assert METRICS["pearson_correlation"].constant_guess(pd.Series([0.0] * 9 + [5.0])) == [0, 5]


def test_find_metric():
    assert find_metric("rmse") is METRICS["rmse"]
    assert find_metric("math.dist", higher_is_better=True) == Metric(math.dist, True)
    own = find_metric("sklearn.metrics.log_loss", higher_is_better=False, takes="probabilities")
    assert (own.score, own.takes) == (sklearn.metrics.log_loss, Takes.PROBABILITIES)


FORTUNE = """
from trl_mle.competitions.metrics import pinball
q95 = pinball(0.95)
def mine(y_true, y_pred): return 1.0
"""


def test_a_metric_of_ones_own_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "fortune.py").write_text(FORTUNE)
    (tmp_path / "torn.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    metric = find_metric("fortune.q95")
    assert metric.score(_column(0), _column(-1)) == 0.95
    assert pickle.loads(pickle.dumps(metric)).score(_column(0), _column(-1)) == 0.95
    for name, direction, message in [
        ("fortune.mine", None, "needs higher_is_better"),
        ("fortune.q95", True, r"'fortune\.q95' knows its own"),
        ("fortune.min", True, "cannot be imported"),
        ("torn.mine", True, "No module named 'no_such_package'"),
    ]:
        with pytest.raises(ValueError, match=message):
            find_metric(name, direction)


def test_the_docs_have_every_metric():
    page = (Path(__file__).parents[2] / "docs/competitions.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.count("|") == 5 and "`" in line]
    for column, higher in ((-3, True), (-2, False)):
        names = {name for row in rows for name in re.findall(r"`(\w[\w.]*)`", row[column])}
        assert names >= {name for name, metric in METRICS.items() if metric.higher_is_better == higher}
