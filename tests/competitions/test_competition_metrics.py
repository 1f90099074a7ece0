import math

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics

from trl_mle.competitions.metrics import METRICS, accuracy, log_loss, rmse, roc_auc


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
    # Of the four pairs of a 1 and a 0 three are in order; a tie counts half.
    assert roc_auc(_column(0, 0, 1, 1), _column(0.1, 0.4, 0.35, 0.8)) == 0.75
    assert roc_auc(_column(0, 1), _column(0.3, 0.3)) == 0.5


def test_rmse_by_hand():
    assert rmse(_column(1, 2, 3), _column(1, 2, 6)) == pytest.approx(math.sqrt(3))


def test_accuracy_by_hand():
    assert accuracy(_column(0, 1, 2, 2), _column(0, 1, 1, 7)) == 0.5


def test_directions():
    assert {name for name, metric in METRICS.items() if metric.higher_is_better} == {"roc_auc", "accuracy"}
